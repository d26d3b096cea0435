package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file provides the driver's libraries for images that have none. It reads files of the Container Device Interface
// (CDI) and uses only parts of them. The interface's own library would add a validator, a file watcher and a spec
// generator, only to read a few lists. A CDI file may name hooks, which are programs for an unfinished container. None
// of them is run. The effects of the usual hooks, links and the linker's path, are achieved with mounts and a variable.

// cdiDirs lists the folders of CDI files. A later folder has priority.
var cdiDirs = []string{"etc/cdi", "var/run/cdi"}

const (
	cdiKind     = "nvidia.com/gpu"
	maxCDIBytes = 4 << 20
	maxCDIFiles = 64
	maxEdits    = 1024
)

type cdiFile struct {
	path    string
	Kind    string      `yaml:"kind"`
	Devices []cdiDevice `yaml:"devices"`
	Edits   cdiEdits    `yaml:"containerEdits"`
}

type cdiDevice struct {
	Name  string   `yaml:"name"`
	Edits cdiEdits `yaml:"containerEdits"`
}

type cdiEdits struct {
	Env   []string `yaml:"env"`
	Nodes []struct {
		Path     string `yaml:"path"`
		HostPath string `yaml:"hostPath"`
	} `yaml:"deviceNodes"`
	Mounts []struct {
		HostPath      string `yaml:"hostPath"`
		ContainerPath string `yaml:"containerPath"`
	} `yaml:"mounts"`
	Hooks []struct {
		Path string   `yaml:"path"`
		Args []string `yaml:"args"`
	} `yaml:"hooks"`
}

// readCDI reads the files for NVIDIA's GPUs, the file with the highest priority first. AMD's images contain their
// libraries.
func (h *Hardware) readCDI() (files []cdiFile, notes []string) {
	for _, dir := range cdiDirs {
		entries, err := os.ReadDir(filepath.Join(h.root, dir))
		if err != nil {
			continue
		}
		for _, entry := range entries[:min(len(entries), maxCDIFiles)] {
			name := filepath.Join("/", dir, entry.Name())
			if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" && ext != ".json" {
				continue
			}
			file, err := readCDIFile(filepath.Join(h.root, name))
			switch {
			case err != nil:
				notes = append(notes, fmt.Sprintf("%s is ignored: %s", name, oneLine(err.Error())))
			case file.Kind == cdiKind:
				file.path = name
				files = append([]cdiFile{file}, files...)
			}
		}
	}
	return files, notes
}

func readCDIFile(path string) (cdiFile, error) {
	var file cdiFile
	info, err := os.Stat(path)
	if err != nil {
		return file, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxCDIBytes {
		return file, fmt.Errorf("not a regular file, or larger than %d MiB", maxCDIBytes>>20)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return file, err
	}
	return parseCDI(text)
}

// parseCDI parses one file. JSON is valid YAML.
func parseCDI(text []byte) (file cdiFile, err error) {
	if err := yaml.Unmarshal(text, &file); err != nil {
		return cdiFile{}, err
	}
	for _, edits := range file.all() {
		if len(edits.Env)+len(edits.Nodes)+len(edits.Mounts)+len(edits.Hooks) > maxEdits {
			return cdiFile{}, fmt.Errorf("more than %d edits in one section", maxEdits)
		}
	}
	return file, nil
}

func (f *cdiFile) all() []*cdiEdits {
	edits := []*cdiEdits{&f.Edits}
	for i := range f.Devices {
		edits = append(edits, &f.Devices[i].Edits)
	}
	return edits
}

// GrantedImage returns the view of a task in an image: that of Granted, and the driver's libraries.
func (h *Hardware) GrantedImage(gpus []*messages.Gpu) (*View, error) {
	view, err := h.Granted(gpus)
	if err != nil {
		return nil, err
	}
	devices, err := h.find(gpus)
	if err != nil || !slices.ContainsFunc(devices, isNVIDIA) {
		return view, err
	}
	files, _ := h.readCDI()
	used := map[string]bool{}
	for _, d := range devices {
		file, entry := entryFor(files, d)
		if file == nil {
			continue
		}
		if !used[file.path] {
			used[file.path] = true
			h.apply(&file.Edits, devices, view)
		}
		if entry != nil {
			h.apply(&entry.Edits, devices, view)
		}
	}
	return view, nil
}

// entryFor returns the first file that knows the device, and its entry for the device. If no file knows it, the first
// file's edits for all devices still provide the libraries.
func entryFor(files []cdiFile, d Device) (*cdiFile, *cdiDevice) {
	if !isNVIDIA(d) || len(files) == 0 {
		return nil, nil
	}
	for i := range files {
		if entry := files[i].device(d); entry != nil {
			return &files[i], entry
		}
	}
	return &files[0], nil
}

// device finds a file's entry by the nodes that open the device, because the entry's name may be a number, an identity
// or any other text.
func (f *cdiFile) device(d Device) *cdiDevice {
	for i := range f.Devices {
		var own []string
		for _, node := range f.Devices[i].Edits.Nodes {
			number, found := strings.CutPrefix(node.Path, nvidiaNode)
			if found && strings.Trim(number, "0123456789") == "" || strings.HasPrefix(node.Path, capsDir) {
				own = append(own, node.Path)
			}
		}
		slices.Sort(own)
		if slices.Equal(slices.Compact(own), slices.Sorted(slices.Values(d.Nodes))) {
			return &f.Devices[i]
		}
	}
	return nil
}

// apply adds the edits of a list. It omits nodes of other devices, missing paths, and paths that are neither file nor
// directory. A socket, for example, leads to a daemon of the host, which tasks must not reach.
func (h *Hardware) apply(edits *cdiEdits, devices []Device, view *View) {
	for _, variable := range edits.Env {
		if name, _, found := strings.Cut(variable, "="); found && name != "" && !strings.ContainsRune(variable, 0) {
			view.Env = append(view.Env, variable)
		}
	}
	for _, node := range edits.Nodes {
		path := filepath.Clean(node.Path)
		elsewhere := node.HostPath != "" && filepath.Clean(node.HostPath) != path
		if strings.HasPrefix(path, "/dev/") && !elsewhere && !h.foreign(path, devices) {
			view.add(h.existing(path)...)
		}
	}
	for _, m := range edits.Mounts {
		h.mount(m.HostPath, m.ContainerPath, view)
	}
	for _, hook := range edits.Hooks {
		h.imitate(hook.Args, view)
	}
}

// shortNames lists the suffixes that programs use instead of libcuda.so.535.183.06.
var shortNames = []string{".so", ".so.0", ".so.1", ".so.2"}

// mount shows one file or directory. It shows a library also under those short names that exist on the host.
func (h *Hardware) mount(source, target string, view *View) {
	if !filepath.IsAbs(source) || !filepath.IsAbs(target) || filepath.Clean(target) == "/" || len(view.Mounts) > maxEdits {
		return
	}
	info, err := os.Stat(filepath.Join(h.root, source))
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return
	}
	view.show(source, target)
	dir, name := filepath.Split(source)
	stem, _, isLibrary := strings.Cut(name, ".so")
	if !isLibrary || !info.Mode().IsRegular() {
		return
	}
	for _, short := range shortNames {
		same, err := os.Stat(filepath.Join(h.root, dir, stem+short))
		if err == nil && os.SameFile(info, same) {
			view.show(source, filepath.Join(filepath.Dir(target), stem+short))
		}
	}
}

func (v *View) show(source, target string) {
	m := Mount{filepath.Clean(source), filepath.Clean(target)}
	if !slices.ContainsFunc(v.Mounts, func(o Mount) bool { return o.Target == m.Target }) {
		v.Mounts = append(v.Mounts, m)
	}
}

// imitate uses mounts for the effects of the two common hooks. The first hook lists links as TARGET::LINK, the second
// lists folders for the linker.
func (h *Hardware) imitate(arguments []string, view *View) {
	for i := 0; i+1 < len(arguments); i++ {
		value := arguments[i+1]
		switch arguments[i] {
		case "--link":
			target, link, found := strings.Cut(value, "::")
			if !found || !filepath.IsAbs(link) {
				continue
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(link), target)
			}
			for _, m := range slices.Clone(view.Mounts) {
				if m.Target == filepath.Clean(target) {
					view.show(m.Source, link)
				}
			}
		case "--folder":
			if filepath.IsAbs(value) && !strings.ContainsRune(value, ':') &&
				!slices.Contains(view.LibraryDirs, filepath.Clean(value)) {
				view.LibraryDirs = append(view.LibraryDirs, filepath.Clean(value))
			}
		}
	}
}

// imitated lists the hooks whose effects are achieved without running them.
var imitated = []string{"create-symlinks", "update-ldcache"}

// Libraries returns notes for the operator: the source of the driver's libraries for images, and the hooks that are not
// run.
func (h *Hardware) Libraries() []string {
	var any bool
	for _, d := range h.devices { //order: only asked whether there is one
		any = any || isNVIDIA(d)
	}
	if !any {
		return nil
	}
	files, notes := h.readCDI()
	if len(files) == 0 {
		return append(notes, "no CDI file for nvidia.com/gpu in /etc/cdi or /var/run/cdi: images other than host "+
			"must contain the driver's libraries; to create a file, run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`")
	}
	for i := range files {
		line := "images get the driver's libraries from " + files[i].path
		if left := files[i].notRun(); len(left) > 0 {
			line += "; its hooks are not run: " + strings.Join(left, ", ")
		}
		notes = append(notes, line)
	}
	return notes
}

// notRun returns the names of the hooks that have no effect here.
func (f *cdiFile) notRun() []string {
	var names []string
	for _, edits := range f.all() {
		for _, hook := range edits.Hooks {
			name := hookName(hook.Path, hook.Args)
			if !slices.Contains(imitated, name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hookName returns the sub-command of NVIDIA's hook program, or the name of another program.
func hookName(path string, arguments []string) string {
	for _, a := range arguments[min(1, len(arguments)):] {
		if a != "hook" && !strings.HasPrefix(a, "-") {
			return oneLine(a)
		}
	}
	return oneLine(filepath.Base(path))
}
