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
	"sync"
)

// This file computes the work on a node from the state of the node.

// Found describes the current state of a node.
type Found struct {
	Arch     string // as the kernel reports it
	Kind     string // type of its packages: deb, rpm; empty: neither
	Version  string // of the installed package; empty: not installed
	Systemd  bool
	Active   bool // the agent's unit is running
	Enabled  bool // the agent's unit starts at boot
	Keyed    bool // a key and a certificate exist
	Settings []byte
}

// Package is a file that `make dist` created.
type Package struct {
	File, Version, Arch, Kind string
	body                      []byte
}

// The names of packages, and the kernels' names of architectures.
var (
	debName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^synapse_([^_]+)_(amd64|arm64)\.deb$`)
	})
	rpmName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^synapse-(.+-[0-9]+)\.(x86_64|aarch64)\.rpm$`)
	})
	kernels = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}
)

// ReadPackage reads a package. Its file name contains its properties.
func ReadPackage(file string) (Package, error) {
	p, err := named(filepath.Base(file))
	if err == nil {
		p.body, err = os.ReadFile(file)
	}
	return p, err
}

// named returns the package that a file name describes.
func named(base string) (Package, error) {
	p := Package{File: base, Kind: "deb"}
	parts := debName().FindStringSubmatch(base)
	if parts == nil {
		p.Kind, parts = "rpm", rpmName().FindStringSubmatch(base)
	}
	if parts == nil {
		return p, fmt.Errorf("%s: not a package name of `make dist`, such as synapse_VERSION_amd64.deb or "+
			"synapse-VERSION-1.x86_64.rpm", base)
	}
	p.Version, p.Arch = parts[1], kernels[parts[2]]
	return p, nil
}

// Plan describes the wanted state of all nodes.
type Plan struct {
	Packages  []Package // none: the installed package is kept
	Token     bool      // nodes have certificates
	MayInvite bool      // this run can create join tokens
	Overwrite bool      // also replace settings that an operator changed
}

// Work is the work on a node.
type Work struct {
	Package  *Package // package to install; nil: none
	From     string   // the version that it replaces
	Settings []byte   // settings to write; nil: keep the current ones
	Invite   bool     // a join token is needed
	Start    bool     // the unit is stopped, or does not start at boot
}

func (w Work) none() bool { return w.Package == nil && w.Settings == nil && !w.Invite && !w.Start }

// String returns a text about the work.
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

// For returns the work on a node, or the reason why the node cannot be changed.
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
	// A node with a key keeps the token setting with which it joined.
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

// packageFor returns the package for a node, or nil if it is already installed.
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
