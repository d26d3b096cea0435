// Package hostpolicy reads the node's job policy: a file of root with the host resources that jobs may name. The agent
// reads it once at its start. The node enforces the policy, regardless of the scheduler. This package does not enforce
// it itself; the drivers and runtime/hostpath do.
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

// Policy is the content of the policy file. Missing keys have the defaults of a node without a policy.
type Policy struct {
	Users Users `yaml:"users"`
	// Mounts lists directories that jobs may use as sources of mounts; empty: every directory that the task's user
	// can access.
	Mounts []Mount `yaml:"mounts"`
	// Images lists directories for images that jobs name by a path; empty: every directory that the task's user can
	// read.
	Images []string `yaml:"images"`
	// Registries lists the permitted hosts of images; empty: every host.
	Registries []string `yaml:"registries"`
	// Devices lists device nodes that jobs may use as sources of mounts; empty: a job gets only the devices of its
	// GPUs.
	Devices []string `yaml:"devices"`
	// NUMA permits tasks to choose the NUMA nodes of their memory. Otherwise the system call filter refuses this.
	NUMA bool `yaml:"numa"`
	// Reach lists otherwise blocked destinations that tasks may connect to: the schedulers' ports, and the metadata
	// service with a cloud host's secrets.
	Reach []string `yaml:"reach"`
	// Resolvers lists the name servers of tasks with a private network; empty: those of the node.
	Resolvers []netip.Addr `yaml:"resolvers"`
	// HostView and ProcessDriver may be false. Then no job runs on the host's own root, or without a container.
	HostView      *bool `yaml:"hostView"`
	ProcessDriver *bool `yaml:"processDriver"`
}

// Mount is a permitted directory of the node.
type Mount struct {
	Path     string   `yaml:"path"`
	ReadOnly bool     `yaml:"readOnly"`
	Types    []string `yaml:"types"`
}

// maxBytes exceeds the size of any real policy file.
const maxBytes = 1 << 20

// Read reads a policy file. It refuses a file that a user other than root or the agent's own user could have written or
// placed.
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
		return p, fmt.Errorf("%s is not a regular file", path)
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
		return p, fmt.Errorf("parse %s: %w", path, err)
	}
	if err := p.check(); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// check refuses useless rules. A rule that applies to nothing would only seem to protect.
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
				return fmt.Errorf("mounts[%d].types[%d]: %q is not a file system; use a name such as ext4 or nfs4", i, j, kind)
			}
		}
	}
	for i, what := range p.Reach {
		if !slices.Contains(reachable, what) {
			return fmt.Errorf("reach[%d]: %q is unknown; use one of %s", i, what, strings.Join(reachable, ", "))
		}
	}
	for i, a := range p.Resolvers {
		if !a.Is4() || a.IsLoopback() || a.IsUnspecified() {
			return fmt.Errorf("resolvers[%d]: %v is not reachable from a private network; use IPv4 addresses of other hosts",
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
			return fmt.Errorf("registries[%d]: %q is not a registry host; use a form such as ghcr.io or registry:5000", i, host)
		}
	}
	return nil
}

// ofGPUs lists the device nodes of GPUs. ofTasks lists those that every container has for itself.
var (
	ofGPUs  = []string{"/dev/nvidia[0-9]*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd"}
	ofTasks = []string{"/dev/pts/*", "/dev/shm/*", "/dev/mqueue/*", "/dev/ptmx", "/dev/tty", "/dev/console"}
)

// device refuses a path that is no device for jobs.
func device(path string) error {
	if filepath.Clean(path) != path || !strings.HasPrefix(path, "/dev/") {
		return fmt.Errorf("%q is not a device path below /dev", path)
	}
	like := func(pattern string) bool {
		ok, _ := filepath.Match(pattern, path) // the patterns are constant and valid
		return ok
	}
	if slices.ContainsFunc(ofGPUs, like) {
		return fmt.Errorf("%s belongs to a GPU, and tasks get the device nodes of their granted GPUs anyway; omit it", path)
	}
	if slices.ContainsFunc(ofTasks, like) {
		return fmt.Errorf("%s is a terminal or shared memory, which each task has for itself; omit it", path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeDevice == 0 {
		return fmt.Errorf("%s is not a device node; for a link, use its target", path)
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

// MountRules returns the rules for sources of mounts.
func (p Policy) MountRules(hide []string) hostpath.Rules {
	rules := hostpath.Rules{Hide: hide, Devices: p.Devices}
	for _, m := range p.Mounts {
		rules.Mounts = append(rules.Mounts, hostpath.Place(m))
	}
	return rules
}

// ImageRules returns the rules for images on the node.
func (p Policy) ImageRules(hide []string) hostpath.Rules {
	rules := hostpath.Rules{Hide: hide}
	for _, path := range p.Images {
		rules.Mounts = append(rules.Mounts, hostpath.Place{Path: path})
	}
	return rules
}

// The values of reach.
const (
	Schedulers = "schedulers"
	Metadata   = "metadata"
)

var reachable = []string{Schedulers, Metadata}

// MayReach reports whether tasks may connect to an otherwise blocked destination.
func (p Policy) MayReach(what string) bool { return slices.Contains(p.Reach, what) }

// MayHostView returns an error if the policy forbids the host's root.
func (p Policy) MayHostView() error {
	if p.HostView != nil && !*p.HostView {
		return fault.OfJob(errors.New("image: host is not allowed by this node's policy; use another image"))
	}
	return nil
}

// MayProcess returns an error if the policy forbids plain processes.
func (p Policy) MayProcess() error {
	if p.ProcessDriver != nil && !*p.ProcessDriver {
		return fault.OfJob(errors.New("image: this node runs plain processes, which its policy does not allow; select " +
			"another node with nodeSelector"))
	}
	return nil
}

// MayPull returns an error if the policy forbids a registry.
func (p Policy) MayPull(host string) error {
	if len(p.Registries) == 0 || slices.Contains(p.Registries, host) {
		return nil
	}
	return fault.OfJob(fmt.Errorf("image: %s is not a registry that this node's policy allows; use one of %s",
		host, strings.Join(p.Registries, ", ")))
}

// NamesRegistry reports whether the policy names a registry. Only then may the registry have an address of the node
// itself.
func (p Policy) NamesRegistry(host string) bool { return slices.Contains(p.Registries, host) }

// String returns the effective policy, including the defaults.
func (p Policy) String() string {
	parts := []string{p.Users.String()}
	mounts := "mounts of directories that the task's user can access on " + strings.Join(hostpath.Types, ", ")
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
	images := "images that the task's user can read"
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
		parts = append(parts, "tasks may reach "+strings.Join(p.Reach, ", "))
	}
	if p.NUMA {
		parts = append(parts, "tasks may choose NUMA nodes")
	}
	return strings.Join(parts, "; ")
}
