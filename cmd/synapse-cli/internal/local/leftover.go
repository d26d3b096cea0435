//go:build linux

package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// This file owns what a cluster has left that was killed before it could end in
// order: its scheduler and nodes died with it, but the nodes' tasks are meant to
// outlive them. They are found by the cluster's directory, and nobody else's are
// touched.

// ErrInUse says that a cluster runs in the directory.
var ErrInUse = errors.New("a cluster is already running here; end it, or use another --data-dir")

// lock keeps a directory for one cluster. The kernel gives it back when its
// process ends, however that happens.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return file, nil
}

// Clean ends what a killed cluster has left of a directory, and reports how many
// processes that were. Its state stays. A cluster that runs is refused. Node is the program of its nodes.
func Clean(node []string, dir string) (int, error) {
	held, err := lock(dir)
	if err != nil {
		return 0, err
	}
	defer held.Close()
	return leftovers(node, "end", dir)
}

// leftovers runs a node's program for what is left of a directory, whose lock is held, and answers how many processes
// it has ended. What a node runs of its own, a node's program knows.
func leftovers(node []string, verb, dir string) (ended int, err error) {
	command := exec.Command(node[0], slices.Concat(node[1:], []string{"leftovers", verb, dir})...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C does not end it half-way
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if _, failed := fmt.Sscan(string(out), &ended); failed != nil {
		return 0, fmt.Errorf("%s leftovers: %w: %.2000s", node[0], errors.Join(err, failed), said.Bytes())
	}
	if err != nil {
		return ended, errors.New(said.String())
	}
	return ended, nil
}

// Abandoned are the directories of clusters without one of their own that were
// killed: a living one holds its lock.
func Abandoned(parent string) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(parent, TemporaryPrefix+"*"))
	if err != nil {
		return nil, err
	}
	var abandoned []string
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		held, err := lock(dir)
		switch {
		case errors.Is(err, ErrInUse) || errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		held.Close()
		abandoned = append(abandoned, dir)
	}
	return abandoned, nil
}

// TemporaryPrefix begins the name of a directory that goes with its cluster.
const TemporaryPrefix = "synapse-up-"
