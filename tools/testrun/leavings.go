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

// This file owns what tests may leave on a machine, which is nothing: no file where they keep what is temporary, no
// process that began there, no mount beneath it, no named network, no control group.

// leavings knows what was there before.
type leavings struct {
	root   string // the machine's files, as tests of this file have their own
	temp   string // where the tests keep what is temporary
	before map[string]uint64
	wait   time.Duration // what is ending may be seen for so long
}

// newLeavings makes a directory for what is temporary, and remembers what there is already. Not all that comes later
// is left by the tests: other people's containers come and go meanwhile. So what lies in that directory counts, and of
// the rest what belongs to nobody.
func newLeavings() (*leavings, error) {
	temp, err := newTemp(os.TempDir())
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil { // as /tmp is: tests have tasks of other users
		return nil, err
	}
	return leavingsIn(temp), nil
}

// leavingsIn remembers what there is already, beside a directory that is empty.
func leavingsIn(temp string) *leavings {
	l := &leavings{root: "/", temp: temp, wait: 10 * time.Second}
	l.before = l.look(true)
	return l
}

// newTemp makes the first directory that is free. Its path is short, since sockets are made beneath it, and the same
// one the next time: go test takes no result over from a run that had another.
func newTemp(above string) (string, error) {
	for n := 0; ; n++ {
		temp := filepath.Join(above, fmt.Sprintf("syn%d", n))
		if err := os.Mkdir(temp, 0o700); !errors.Is(err, fs.ErrExist) {
			return temp, err
		}
	}
}

// alsoTemporary is where crun and runc make files for a moment. They ask for no TMPDIR, and what one leaves that is
// killed meanwhile would lie in /tmp, where nobody looks.
const alsoTemporary = "_LIBCONTAINER_STATEDIR"

// run runs a command in a directory, and hands its output to read.
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
	_ = child.Wait() // why it failed is in what it said
	return nil
}

// left is what the tests left: what is there, the same thing, for as long as it may take to go.
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

// ownPlaces are where programs have folders of their own unless they are told of another one, as tests must.
var ownPlaces = []string{"etc", "run", "srv", "var/lib", "var/tmp"}

// look finds all that counts, with what tells it from another of its name; of control groups all, or those that belong
// to nobody.
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

// processes are those that were started beneath us, whoever is their parent now: their environment leads there.
func (l *leavings) processes(found map[string]uint64) {
	all, _ := filepath.Glob(filepath.Join(l.root, "proc/[0-9]*"))
	for _, dir := range all {
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !strings.Contains(string(environment), "="+l.temp) {
			continue
		}
		words, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(words) > 0 { // else it has ended
			found[fmt.Sprintf("process %s: %s", filepath.Base(dir), strings.ReplaceAll(string(words), "\x00", " "))] = 0
		}
	}
}

// shared is the group above their tasks' that all agents of a machine have if nobody says otherwise: an idle agent
// beside the tests may keep it, and nothing more.
const shared = "synapse"

// groups are control groups, all or those without a process in them or in one below.
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

// below reports whether a path is a directory or lies beneath it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
