// Package hostpolicy is what the owner of a machine lets jobs name on it: a file that belongs to root, read once
// when the agent starts. The machine enforces it, whatever a scheduler says. It applies nothing itself: the drivers
// and runtime/hostpath do.
package hostpolicy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// Policy is the file's content. What it leaves out is as on a machine without a policy.
type Policy struct {
	Users Users `yaml:"users"`
	// Mounts are the directories that jobs may name as sources of mounts; none: every one that the task's user can
	// reach.
	Mounts []Mount `yaml:"mounts"`
	// Images are the directories for images that jobs name by a path; none: wherever the task's user can read.
	Images []string `yaml:"images"`
	// Registries are the hosts that images may come from; none: every one.
	Registries []string `yaml:"registries"`
	// Devices are the device nodes that jobs may name as sources of mounts; none: a job has only the devices of its
	// GPUs.
	Devices []string `yaml:"devices"`
	// NUMA lets tasks choose from which of the machine's NUMA nodes their memory comes, which their filter of calls
	// refuses otherwise.
	NUMA bool `yaml:"numa"`
	// Reach lists what tasks may connect to although it is refused otherwise: the schedulers' ports, the service
	// with a cloud machine's secrets.
	Reach []string `yaml:"reach"`
	// Resolvers are the name servers of tasks with a private network; none: those of the machine.
	Resolvers []netip.Addr `yaml:"resolvers"`
	// HostView and ProcessDriver may be false: then no job runs on the machine's own root, or without a container.
	HostView      *bool `yaml:"hostView"`
	ProcessDriver *bool `yaml:"processDriver"`
}

// Mount is a directory of the machine.
type Mount struct {
	Path     string   `yaml:"path"`
	ReadOnly bool     `yaml:"readOnly"`
	Types    []string `yaml:"types"`
}

// maxBytes is more than any policy file has.
const maxBytes = 1 << 20

// Read reads a policy that nobody but root, or the agent's own user, can have written or put there.
func Read(path string) (p Policy, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return p, err
	}
	path, err = file.Trusted(path, "change what this node allows")
	if err != nil {
		return p, err
	}
	opened, err := os.Open(path)
	if err != nil {
		return p, err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil {
		return p, err
	}
	switch {
	case !info.Mode().IsRegular():
		return p, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxBytes:
		return p, fmt.Errorf("%s has more than %d bytes", path, maxBytes)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxBytes))
	if err != nil {
		return p, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	if err := p.check(); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// check refuses rules that cannot be meant: a rule that applies to nothing looks as if it protects.
func (p Policy) check() error {
	if err := p.Users.check(); err != nil {
		return err
	}
	for i, path := range p.Devices {
		if err := device(path); err != nil {
			return fmt.Errorf("devices[%d]: %w", i, err)
		}
	}
	for i, m := range p.Mounts {
		if err := directory(m.Path); err != nil {
			return fmt.Errorf("mounts[%d].path: %w", i, err)
		}
		for j, kind := range m.Types {
			if kind == "" || strings.ContainsAny(kind, " \t\n") {
				return fmt.Errorf("mounts[%d].types[%d]: %q is not the name of a file system, such as ext4 or nfs4", i, j, kind)
			}
		}
	}
	for i, what := range p.Reach {
		if !slices.Contains(reachable, what) {
			return fmt.Errorf("reach[%d]: %q is not one of %s", i, what, strings.Join(reachable, ", "))
		}
	}
	for i, a := range p.Resolvers {
		if !a.Is4() || a.IsLoopback() || a.IsUnspecified() {
			return fmt.Errorf("resolvers[%d]: %v is not a server that a private network reaches: name IPv4 addresses of others",
				i, a)
		}
	}
	for i, path := range p.Images {
		if err := directory(path); err != nil {
			return fmt.Errorf("images[%d]: %w", i, err)
		}
	}
	for i, host := range p.Registries {
		if host == "" || strings.ContainsAny(host, "/@ ") {
			return fmt.Errorf("registries[%d]: %q is not the host of a registry, such as ghcr.io or registry:5000", i, host)
		}
	}
	return nil
}

// ofGPUs are the device nodes of GPUs, and ofTasks those that every container has for itself.
var (
	ofGPUs  = []string{"/dev/nvidia[0-9]*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd"}
	ofTasks = []string{"/dev/pts/*", "/dev/shm/*", "/dev/mqueue/*", "/dev/ptmx", "/dev/tty", "/dev/console"}
)

// device refuses a path that is no device for jobs to name.
func device(path string) error {
	if filepath.Clean(path) != path || !strings.HasPrefix(path, "/dev/") {
		return fmt.Errorf("%q is not the path of a device below /dev", path)
	}
	like := func(pattern string) bool {
		ok, _ := filepath.Match(pattern, path) // the patterns are ours, and valid
		return ok
	}
	if slices.ContainsFunc(ofGPUs, like) {
		return fmt.Errorf("%s belongs to a GPU, and tasks have the nodes of the GPUs that they are given; leave it out", path)
	}
	if slices.ContainsFunc(ofTasks, like) {
		return fmt.Errorf("%s is a terminal or shared memory, and each task has its own; leave it out", path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeDevice == 0 {
		return fmt.Errorf("%s is not a device node; a link is named by where it leads", path)
	}
	return nil
}

func directory(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	return nil
}

// MountRules are the rules for sources of mounts.
func (p Policy) MountRules(hide []string) hostpath.Rules {
	rules := hostpath.Rules{Hide: hide, Devices: p.Devices}
	for _, m := range p.Mounts {
		rules.Mounts = append(rules.Mounts, hostpath.Place(m))
	}
	return rules
}

// ImageRules are the rules for images on the machine.
func (p Policy) ImageRules(hide []string) hostpath.Rules {
	rules := hostpath.Rules{Hide: hide}
	for _, path := range p.Images {
		rules.Mounts = append(rules.Mounts, hostpath.Place{Path: path})
	}
	return rules
}

// The words of reach.
const (
	Schedulers = "schedulers"
	Metadata   = "metadata"
)

var reachable = []string{Schedulers, Metadata}

// MayReach reports whether tasks may connect to something that is refused otherwise.
func (p Policy) MayReach(what string) bool { return slices.Contains(p.Reach, what) }

// MayHostView refuses the machine's own root.
func (p Policy) MayHostView() error {
	if p.HostView != nil && !*p.HostView {
		return fault.OfJob(errors.New("image: host is not allowed by this machine's policy; name an image"))
	}
	return nil
}

// MayProcess refuses plain processes.
func (p Policy) MayProcess() error {
	if p.ProcessDriver != nil && !*p.ProcessDriver {
		return fault.OfJob(errors.New("image: this machine runs plain processes, which its policy does not allow; name " +
			"another machine with nodeSelector"))
	}
	return nil
}

// MayPull refuses a registry.
func (p Policy) MayPull(host string) error {
	if len(p.Registries) == 0 || slices.Contains(p.Registries, host) {
		return nil
	}
	return fault.OfJob(fmt.Errorf("image: %s is not among the registries that this machine's policy allows: %s",
		host, strings.Join(p.Registries, ", ")))
}

// NamesRegistry reports whether the policy names a registry. Only then may it be at an address of the node itself.
func (p Policy) NamesRegistry(host string) bool { return slices.Contains(p.Registries, host) }

// String is the policy that is in force, the defaults filled in.
func (p Policy) String() string {
	parts := []string{p.Users.String()}
	mounts := "mounts of what the task's user reaches on " + strings.Join(hostpath.Types, ", ")
	if len(p.Mounts) > 0 {
		mounts = "mounts of"
		for _, m := range p.Mounts {
			mounts += " " + m.Path
			if m.ReadOnly {
				mounts += " (read-only)"
			}
			if len(m.Types) > 0 {
				mounts += " (on " + strings.Join(m.Types, ", ") + ")"
			}
		}
	}
	images := "images where the task's user reads them"
	if len(p.Images) > 0 {
		images = "images in " + strings.Join(p.Images, ", ")
	}
	registries := "every registry"
	if len(p.Registries) > 0 {
		registries = "registries " + strings.Join(p.Registries, ", ")
	}
	parts = append(parts, mounts, images, registries)
	if len(p.Devices) > 0 {
		parts = append(parts, "devices "+strings.Join(p.Devices, ", "))
	}
	if p.MayHostView() != nil {
		parts = append(parts, "no host view")
	}
	if p.MayProcess() != nil {
		parts = append(parts, "no plain processes")
	}
	if len(p.Reach) > 0 {
		parts = append(parts, "tasks reach "+strings.Join(p.Reach, ", "))
	}
	if p.NUMA {
		parts = append(parts, "memory from the nodes that tasks choose")
	}
	return strings.Join(parts, "; ")
}
