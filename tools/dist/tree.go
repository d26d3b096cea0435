package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// This file defines the installed files, which are the same for every kind of package and for `make install`.

// file is one file of an installed system.
type file struct {
	path   string // path from the root, without the slash
	mode   int64
	body   []byte
	link   string // target, if the file is a link
	config bool   // a configuration file, which an upgrade does not overwrite
}

// settled lists the files that come unchanged from deploy/.
var settled = []struct {
	from, to string
	mode     int64
	config   bool
}{
	{"deploy/systemd/synapse-scheduler.service", "usr/lib/systemd/system/synapse-scheduler.service", 0o644, false},
	{"deploy/systemd/synapse-node.service", "usr/lib/systemd/system/synapse-node.service", 0o644, false},
	{"deploy/systemd/synapse.sysusers", "usr/lib/sysusers.d/synapse.conf", 0o644, false},
	{"deploy/systemd/synapse.tmpfiles", "usr/lib/tmpfiles.d/synapse.conf", 0o644, false},
	{"deploy/etc/scheduler.yaml", "etc/synapse/scheduler.yaml", 0o644, true},
	{"deploy/etc/node.yaml", "etc/synapse/node.yaml", 0o644, true},
}

// installed returns all installed files, by path.
func (t tree) installed(programs []product, pages []file) ([]file, error) {
	all := slices.Clone(pages)
	for _, p := range programs {
		all = append(all, file{path: "usr/bin/" + p.name, mode: 0o755, body: p.body})
	}
	all = append(all, file{path: "usr/bin/synctl", mode: 0o777, link: "synapse-cli"})
	for _, s := range settled {
		body, err := os.ReadFile(filepath.Join(t.dir, s.from))
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: s.to, mode: s.mode, body: body, config: s.config})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// shells lists the shells with a completion, and the path that each reads.
var shells = []struct{ name, at string }{
	{"bash", "usr/share/bash-completion/completions/synapse-cli"},
	{"zsh", "usr/share/zsh/vendor-completions/_synapse-cli"},
	{"fish", "usr/share/fish/vendor_completions.d/synapse-cli.fish"},
}

// pagesOf runs a client to write its manual and completions.
func pagesOf(program string) ([]file, error) {
	dir, err := os.MkdirTemp("", "synapse-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if text, err := exec.Command(program, "docs", "man", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot write the manual: %w: %s", err, text)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pages []file
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, file{path: "usr/share/man/man1/" + e.Name() + ".gz", mode: 0o644, body: squeezed(text)})
	}
	for _, shell := range shells {
		text, err := exec.Command(program, "completion", shell.name).Output()
		if err != nil {
			return nil, fmt.Errorf("cannot write the completion of %s: %w%s", shell.name, err, said(err))
		}
		pages = append(pages, file{path: shell.at, mode: 0o644, body: text})
	}
	return pages, nil
}

// squeezed compresses with gzip without a name and a time, because the time would change each day.
func squeezed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(body)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a buffer accepts all writes
	}
	return b.Bytes()
}

// moved moves a file to another prefix, and changes the paths in its content as well.
func (f file) moved(prefix string) file {
	rest, is := strings.CutPrefix(f.path, "usr/")
	if prefix == "/usr" {
		return f
	}
	if is {
		f.path = path.Join(prefix[1:], rest)
	}
	if strings.HasSuffix(f.path, ".service") {
		f.body = bytes.ReplaceAll(f.body, []byte("/usr/bin/"), []byte(path.Join(prefix, "bin")+"/"))
	}
	return f
}

// install installs locally built programs and their files below a folder. It keeps existing configuration files.
func install(root, bin, into, prefix string) error {
	if !path.IsAbs(prefix) {
		return fmt.Errorf("PREFIX=%s: must begin with a slash", prefix)
	}
	var built []product
	for _, name := range programs {
		body, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			return err
		}
		built = append(built, product{name, body})
	}
	pages, err := pagesOf(filepath.Join(bin, programs[0]))
	if err != nil {
		return err
	}
	all, err := tree{dir: root}.installed(built, pages)
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := f.moved(prefix).put(into); err != nil {
			return err
		}
	}
	return nil
}

// put writes the file under another name and renames it, because a running program must not be overwritten.
func (f file) put(into string) error {
	at := filepath.Join(into, f.path)
	if _, err := os.Lstat(at); f.config && err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	fresh := at + ".new"
	_ = os.Remove(fresh)
	var err error
	if f.link != "" {
		err = os.Symlink(f.link, fresh)
	} else {
		err = os.WriteFile(fresh, f.body, os.FileMode(f.mode))
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh, at)
}
