// Command dist builds a release from the commit that is checked out: programs, archives, Debian and RPM packages, an
// image, a bill of materials, and the checksums of all. It never changes the tree, and its output depends only on the
// commit and the version of Go.
//
//	go -C tools run ./dist -root .. -out ../dist                  makes a release
//	go -C tools run ./dist -root .. -install ../bin -into /       installs programs that are built already
//	go -C tools run ./dist -root .. -wheel ../bin                 makes the wheel of the client for Python
package main

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// targets lists the platforms that are built without -only: all programs for nodes, and the client for workstations.
var targets = []string{
	"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
}

func main() {
	root := flag.String("root", ".", "the repository")
	out := flag.String("out", "dist", "output folder, which is replaced")
	only := flag.String("only", strings.Join(targets, ","), "platforms to build")
	bin := flag.String("install", "", "install the programs of this folder instead of making a release")
	wheels := flag.String("wheel", "", "make only the wheel of the Python client, in this folder")
	into := flag.String("into", "/", "folder below which -install writes")
	prefix := flag.String("prefix", "/usr", "prefix of programs and manual for -install")
	flag.Parse()
	var err error
	switch {
	case *bin != "":
		err = install(*root, *bin, *into, *prefix)
	case *wheels != "":
		err = writeWheel(*root, *wheels)
	default:
		err = compose(*root, *out, strings.Split(*only, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// product is one file of a release.
type product struct {
	name string
	body []byte
}

// compose writes a release into a folder.
func compose(root, out string, targets []string) error {
	work, err := os.MkdirTemp("", "synapse-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree, err := checkOut(root, filepath.Join(work, "tree"))
	if err != nil {
		return err
	}
	var products []product
	var machines []build
	for _, target := range targets {
		b, err := tree.build(target, filepath.Join(work, "bin", target))
		if err != nil {
			return err
		}
		if b.os != "linux" {
			made, err := b.client()
			if err != nil {
				return err
			}
			products = append(products, made)
			continue
		}
		machines = append(machines, b)
	}
	made, err := packed(tree, machines)
	if err != nil {
		return err
	}
	python, err := wheel(tree.dir)
	if err != nil {
		return err
	}
	made = append(made, python)
	return write(out, append(products, made...))
}

// packed returns all files that contain the programs for nodes.
func packed(t tree, machines []build) ([]product, error) {
	var products []product
	pages, err := t.pages(machines)
	if err != nil {
		return nil, err
	}
	scripts, err := readScripts(t.dir)
	if err != nil {
		return nil, err
	}
	for _, b := range machines {
		installed, err := t.installed(b.programs, pages)
		if err != nil {
			return nil, err
		}
		rpm, err := redhat(scripts, b.release, b.arch, installed)
		if err != nil {
			return nil, err
		}
		bill, err := b.bill()
		if err != nil {
			return nil, err
		}
		products = append(products, tarball(b.release, b.arch, installed),
			debian(scripts, b.release, b.arch, installed), rpm, bill)
	}
	if len(machines) == 0 {
		return products, nil
	}
	all, err := image(machines)
	return append(products, all), err
}

// sumsFile is written last, and identifies a folder as a release.
const sumsFile = "SHA256SUMS"

// write replaces an earlier release in the folder, and refuses any other folder that is not empty.
func write(out string, products []product) error {
	if there, err := os.ReadDir(out); err == nil && len(there) > 0 {
		if _, err := os.Stat(filepath.Join(out, sumsFile)); err != nil {
			return fmt.Errorf("%s exists and is no release (it has no %s): remove it, or use another folder", out, sumsFile)
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	slices.SortFunc(products, func(a, b product) int { return cmp.Compare(a.name, b.name) })
	var sums strings.Builder
	for _, p := range products {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(p.body), p.name)
		fmt.Printf("%9d  %s\n", len(p.body), p.name)
		if err := os.WriteFile(filepath.Join(out, p.name), p.body, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, sumsFile), []byte(sums.String()), 0o644)
}
