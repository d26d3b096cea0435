package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// This file owns what is to be done on a machine, by what was found there.

// Found is what is on a machine.
type Found struct {
	Arch     string // as the kernel says it
	Kind     string // of its packages: deb, rpm; empty: neither
	Version  string // of the package that is installed; empty: none is
	Systemd  bool
	Active   bool // the agent runs, by its unit …
	Enabled  bool // … and does so after a boot
	Keyed    bool // it has a key and a certificate
	Settings []byte
}

// Package is a file that `make dist` made.
type Package struct {
	File, Version, Arch, Kind string
	body                      []byte
}

// How packages are named, and kernels name what they run on.
var (
	debName = regexp.MustCompile(`^synapse_([^_]+)_(amd64|arm64)\.deb$`)
	rpmName = regexp.MustCompile(`^synapse-(.+-[0-9]+)\.(x86_64|aarch64)\.rpm$`)
	kernels = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}
)

// ReadPackage reads one. Its name says what it is.
func ReadPackage(file string) (Package, error) {
	p, err := named(filepath.Base(file))
	if err == nil {
		p.body, err = os.ReadFile(file)
	}
	return p, err
}

// named is the package that a file's name tells of.
func named(base string) (Package, error) {
	p := Package{File: base, Kind: "deb"}
	parts := debName.FindStringSubmatch(base)
	if parts == nil {
		p.Kind, parts = "rpm", rpmName.FindStringSubmatch(base)
	}
	if parts == nil {
		return p, fmt.Errorf("%s: not a package name of `make dist`, such as synapse_VERSION_amd64.deb or "+
			"synapse-VERSION-1.x86_64.rpm", base)
	}
	p.Version, p.Arch = parts[1], kernels[parts[2]]
	return p, nil
}

// Plan is what machines should become.
type Plan struct {
	Packages  []Package // none: the one that is there stays
	Token     bool      // the cluster knows machines by their keys …
	MayInvite bool      // … and this run can make tokens
	Overwrite bool      // also settings that somebody changed
}

// Work is what is to be done on a machine.
type Work struct {
	Package  *Package // to be installed; nil: none
	From     string   // the version that it replaces
	Settings []byte   // to be written; nil: they stay
	Invite   bool     // it needs a token
	Start    bool     // its unit does not run, or not after a boot
}

func (w Work) none() bool { return w.Package == nil && w.Settings == nil && !w.Invite && !w.Start }

// String says it to people.
func (w Work) String() string {
	var parts []string
	add := func(is bool, text string) {
		if is {
			parts = append(parts, text)
		}
	}
	switch {
	case w.Package != nil && w.From == "":
		parts = append(parts, "installs "+w.Package.Version)
	case w.Package != nil:
		parts = append(parts, "replaces "+w.From+" with "+w.Package.Version)
	}
	add(w.Settings != nil, "writes settings")
	add(w.Invite, "joins with a token")
	add(w.Start && w.Package == nil && w.Settings == nil && !w.Invite, "starts the agent")
	if parts == nil {
		return "up to date"
	}
	return strings.Join(parts, ", ")
}

// For is what is to be done on a machine, or why nothing can be.
func (p *Plan) For(h Host, f Found) (w Work, err error) {
	if !f.Systemd {
		return w, fmt.Errorf("node has no systemd, which runs the agent")
	}
	if w.Package, err = p.packageFor(f); err != nil {
		return w, err
	}
	w.From = f.Version
	w.Invite = p.Token && !f.Keyed
	if w.Invite && !p.MayInvite {
		return w, fmt.Errorf("node has no key yet: add --by with the scheduler's folder to create a token")
	}
	// One that has a key keeps the line by which it got it, whatever this run knows of the cluster.
	want, err := h.File(p.Token || f.Keyed)
	if err != nil {
		return w, err
	}
	if !bytes.Equal(f.Settings, want) {
		if !ours(f.Settings) && !p.Overwrite {
			return w, fmt.Errorf("%s was edited on the node: copy the changes to the file of --hosts, and deploy "+
				"with --overwrite (the old file stays as node.yaml.before)", SettingsFile)
		}
		w.Settings = want
	}
	w.Start = !f.Active || !f.Enabled
	return w, nil
}

// packageFor is the package that a machine wants; nil: it has that.
func (p *Plan) packageFor(f Found) (*Package, error) {
	if len(p.Packages) == 0 {
		if f.Version == "" {
			return nil, errors.New("the package synapse is not installed: add --package")
		}
		return nil, nil
	}
	i := slices.IndexFunc(p.Packages, func(c Package) bool { return c.Arch == f.Arch && c.Kind == f.Kind })
	switch {
	case f.Kind == "":
		return nil, fmt.Errorf("node has neither dpkg nor rpm")
	case i < 0:
		return nil, fmt.Errorf("no package is a .%s for %s", f.Kind, f.Arch)
	case p.Packages[i].Version == f.Version:
		return nil, nil
	}
	return &p.Packages[i], nil
}
