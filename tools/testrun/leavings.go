package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// This file finds what tests leave on a host. They must leave nothing: no temporary file, no process from there, no
// mount below it, no named network, and no cgroup.

// leavings holds the state before the tests.
type leavings struct {
	root   string // root of the files to examine; tests of this file use another one
	temp   string // temporary directory of the tests
	before map[string]uint64
	wait   time.Duration // time for which an ending object may still exist
}

// newLeavings creates a temporary directory, and records the present state. Not every later change comes from the
// tests, because containers of other users come and go. So everything in that directory counts, and elsewhere only
// objects without a process.
func newLeavings() (*leavings, error) {
	temp, err := newTemp(os.TempDir())
	if err != nil {
		return nil, err
	}
	// as /tmp is, because tests have tasks of other users
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil {
		return nil, err
	}
	return leavingsIn(temp), nil
}

// leavingsIn records the present state, for an empty directory.
func leavingsIn(temp string) *leavings {
	l := &leavings{root: "/", temp: temp, wait: 10 * time.Second}
	l.before = l.look(true)
	return l
}

// newTemp creates the first free directory. Its path is short, because sockets are created below it. The path is the
// same the next time, because go test reuses cached results only with the same path.
func newTemp(above string) (string, error) {
	for n := 0; ; n++ {
		temp := filepath.Join(above, fmt.Sprintf("syn%d", n))
		if err := os.Mkdir(temp, 0o700); !errors.Is(err, fs.ErrExist) {
			return temp, err
		}
	}
}

// alsoTemporary is where crun and runc create files for a moment. They ignore TMPDIR, so the files of a killed runtime
// would stay in /tmp, which is not watched.
const alsoTemporary = "_LIBCONTAINER_STATEDIR"

// run runs a command in a directory, and passes its output to read.
func (l *leavings) run(dir string, command []string, read func(io.Reader) error) error {
	child := exec.Command(command[0], command[1:]...)
	child.Dir, child.Stderr = dir, os.Stderr
	child.Env = append(os.Environ(), "TMPDIR="+l.temp, alsoTemporary+"="+l.temp)
	from, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	if err := read(from); err != nil {
		return err
	}
	_ = child.Wait() // its output shows why it failed
	return nil
}

// left returns what the tests left: objects that still exist, unchanged, after the time for ending.
func (l *leavings) left() []string {
	left := l.look(false)
	maps.DeleteFunc(left, func(name string, _ uint64) bool { _, ok := l.before[name]; return ok })
	for limit := time.Now().Add(l.wait); len(left) > 0; time.Sleep(l.wait / 50) {
		if time.Now().After(limit) {
			return slices.Sorted(maps.Keys(left))
		}
		now := l.look(false)
		maps.DeleteFunc(left, func(name string, id uint64) bool { still, ok := now[name]; return !ok || still != id })
	}
	_ = os.Remove(l.temp)
	return nil
}

// ownPlaces lists the default folders of programs, which tests must not use.
var ownPlaces = []string{"etc", "run", "srv", "var/lib", "var/tmp"}

// look finds everything that counts, with a value that distinguishes it from another object of its name. Of cgroups it
// returns all, or those without a process.
func (l *leavings) look(all bool) map[string]uint64 {
	found := map[string]uint64{}
	entries, _ := os.ReadDir(l.temp)
	for _, entry := range entries {
		found["file "+filepath.Join(l.temp, entry.Name())] = 0
	}
	for _, place := range ownPlaces {
		files, _ := filepath.Glob(filepath.Join(l.root, place, "synapse*"))
		for _, file := range files {
			found["file /"+filepath.Join(place, filepath.Base(file))] = 0
		}
	}
	networks, _ := os.ReadDir(filepath.Join(l.root, "run/netns"))
	for _, entry := range networks {
		found["network "+entry.Name()] = 0
	}
	mounts, _ := os.ReadFile(filepath.Join(l.root, "proc/self/mountinfo"))
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (below(fields[4], l.temp) || below(fields[4], "/run/netns")) {
			found["mount "+fields[4]] = 0
		}
	}
	l.processes(found)
	l.groups(found, all)
	return found
}

// processes finds the processes that the tests started, whatever their parent is now, by the directory in their
// environment.
func (l *leavings) processes(found map[string]uint64) {
	all, _ := filepath.Glob(filepath.Join(l.root, "proc/[0-9]*"))
	for _, dir := range all {
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !strings.Contains(string(environment), "="+l.temp) {
			continue
		}
		words, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(words) > 0 { // otherwise it has ended
			found[fmt.Sprintf("process %s: %s", filepath.Base(dir), strings.ReplaceAll(string(words), "\x00", " "))] = 0
		}
	}
}

// shared is the default parent of the cgroups of tasks, which all agents of a host use. An idle agent next to the tests
// may keep it, and nothing more.
const shared = "synapse"

// groups finds cgroups: all, or those without a process in them or below.
func (l *leavings) groups(found map[string]uint64, all bool) {
	var empty []string
	top := filepath.Join(l.root, "sys/fs/cgroup")
	_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // it has gone meanwhile
		}
		members, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil // a directory of hierarchies
		}
		empty = slices.DeleteFunc(empty, func(above string) bool { return len(members) > 0 && !all && below(path, above) })
		if len(members) == 0 && filepath.Base(path) != shared || all {
			empty = append(empty, path)
		}
		return nil
	})
	for _, path := range empty {
		if info, err := os.Stat(path); err == nil {
			found["group "+strings.TrimPrefix(path, top+"/")] = info.Sys().(*syscall.Stat_t).Ino
		}
	}
}

// below reports whether a path is a directory or below it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
