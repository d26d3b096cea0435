package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file builds the programs of a commit. It checks the commit out to another folder, so that uncommitted files are
// left out and Go stamps the programs with the version of a clean repository: the tag, or time and commit.

// programs lists the programs of a node. Workstations get only the first.
var programs = []string{"synapse-cli", "synapse-scheduler", "synapse-node", "synapse-sim", "carapace", "synapse-exec",
	"synapse-submit"}

// ceilings limits the size of stripped programs in bytes. carapace runs once next to each task, and synapse-exec is
// mounted into each task from one file. Users start synapse-submit for each job, and a start costs more in a larger
// program. A larger program needs a reason here: carapace has networks, secrets and exec
// sessions. synapse-node has health checks, SquashFS images, the search for hangs, exec among tasks, certificates of an
// external issuer, and the rules on users and disks. synapse-scheduler has the messages and rules of verdicts, of
// checkpoints on request, and of calls from inside a job, reads job files for the web UI, and serves Slurm's REST API.
var ceilings = map[string]int{
	"carapace": 3_700_000, "synapse-exec": 3_500_000, "synapse-submit": 5_242_880, "synapse-node": 24_000_000,
	"synapse-scheduler": 34_500_000,
}

// released removes gRPC's pages about single calls, which are not served: they need html/template, a third of a
// megabyte.
const released = "-tags=grpcnotrace"

// tooBig returns an error if a program exceeds its ceiling.
func tooBig(name string, size int) error {
	if limit, watched := ceilings[name]; watched && size > limit {
		return fmt.Errorf("%s has %d bytes, but its ceiling is %d: find the addition with go version -m or go tool nm -size",
			name, size, limit)
	}
	return nil
}

// tree is a commit that is checked out.
type tree struct {
	dir  string
	when time.Time // time of the commit, and of everything that is made
}

func checkOut(root, dir string) (tree, error) {
	if changed, err := git(root, "status", "--porcelain"); err != nil {
		return tree{}, err
	} else if changed != "" {
		fmt.Fprintln(os.Stderr, "dist: uncommitted changes are left out")
	}
	commit, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return tree{}, err
	}
	from, err := filepath.Abs(root)
	if err != nil {
		return tree{}, err
	}
	if _, err := git(root, "clone", "-q", "--shared", "--no-checkout", from, dir); err != nil {
		return tree{}, err
	}
	if _, err := git(dir, "-c", "advice.detachedHead=false", "checkout", "-q", commit); err != nil {
		return tree{}, err
	}
	text, err := git(dir, "log", "-1", "--format=%ct")
	if err != nil {
		return tree{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return tree{dir, time.Unix(seconds, 0).UTC()}, err
}

func git(dir string, words ...string) (string, error) {
	run := exec.Command("git", words...)
	run.Dir = dir
	text, err := run.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w%s", words[0], err, said(err))
	}
	return strings.TrimSpace(string(text)), nil
}

func said(err error) string {
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return ": " + string(bytes.TrimSpace(exit.Stderr))
	}
	return ""
}

// release identifies a build.
type release struct {
	version string // as the programs print it: v1.2.3, or v0.0.0-20261124022841-d1b03a4c9b5e
	when    time.Time
}

// plain returns the version for packages and files. For Debian and RPM a tilde begins an earlier version, as a dash
// does in Go. Neither permits another dash.
func (r release) plain() string {
	number, more, is := strings.Cut(strings.TrimPrefix(r.version, "v"), "-")
	if !is {
		return number
	}
	return number + "~" + strings.ReplaceAll(more, "-", ".")
}

// build holds the programs for one platform.
type build struct {
	release
	os, arch string
	programs []product
}

func (t tree) build(target, dir string) (build, error) {
	b := build{release: release{when: t.when}}
	var two bool
	if b.os, b.arch, two = strings.Cut(target, "/"); !two || !slices.Contains(targets, target) {
		return b, fmt.Errorf("-only %s: use a subset of %s", target, strings.Join(targets, ", "))
	}
	names := programs
	if b.os != "linux" {
		names = names[:1]
	}
	words := []string{"build", "-trimpath", "-buildvcs=true", released, "-ldflags=-s -w -buildid=", "-o", dir + "/"}
	for _, name := range names {
		words = append(words, "./cmd/"+name)
	}
	run := exec.Command("go", words...)
	run.Dir = t.dir
	// The present user's build settings would change the bytes.
	run.Env = append(os.Environ(), "GOOS="+b.os, "GOARCH="+b.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "PWD="+t.dir)
	if text, err := run.CombinedOutput(); err != nil {
		return b, fmt.Errorf("go build for %s: %w: %s", target, err, text)
	}
	return b, b.read(dir, names)
}

func (b *build) read(dir string, names []string) error {
	for _, name := range names {
		if b.os == "windows" {
			name += ".exe"
		}
		body, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if b.os == "linux" {
			if err := tooBig(name, len(body)); err != nil {
				return fmt.Errorf("%s/%s: %w", b.os, b.arch, err)
			}
		}
		b.version = info.Main.Version
		b.programs = append(b.programs, product{name, body})
	}
	if !strings.HasPrefix(b.version, "v") || strings.Contains(b.version, "+") {
		return fmt.Errorf("the programs have version %q: Go found no clean repository", b.version)
	}
	return nil
}

// client returns the single program for a workstation, which needs no installation.
func (b build) client() (product, error) {
	name := fmt.Sprintf("synapse-cli_%s_%s_%s", b.plain(), b.os, b.arch)
	if b.os == "windows" {
		name += ".exe"
	}
	return product{name, b.programs[0].body}, nil
}

// pages returns the manual and the shell completions. The program writes them itself, so one build must run on this
// host.
func (t tree) pages(machines []build) ([]file, error) {
	at := slices.IndexFunc(machines, func(b build) bool { return b.os == runtime.GOOS && b.arch == runtime.GOARCH })
	if at < 0 {
		if len(machines) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("the manual needs a program that runs here: also build for %s/%s", runtime.GOOS,
			runtime.GOARCH)
	}
	program := filepath.Join(t.dir, "cli-here")
	if err := os.WriteFile(program, machines[at].programs[0].body, 0o700); err != nil {
		return nil, err
	}
	return pagesOf(program)
}
