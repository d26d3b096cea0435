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

// This file cleans up after a cluster that was killed. Its scheduler and nodes died with it, but the nodes' tasks
// outlive them. They are found by the cluster's folder, and no other processes are touched.

// ErrInUse means that a cluster is running in the folder.
var ErrInUse = errors.New("a cluster is already running here; end it, or use another --data-dir")

// lock reserves a folder for one cluster. The kernel releases the lock when the process ends.
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

// Clean ends the remaining processes of a killed cluster in a folder, and returns their number. It keeps the state,
// and refuses a running cluster. node is the program of the nodes.
func Clean(node []string, dir string) (int, error) {
	held, err := lock(dir)
	if err != nil {
		return 0, err
	}
	defer held.Close()
	return leftovers(node, "end", dir)
}

// leftovers runs the node program to clean up a locked folder, and returns the number of processes that it has
// ended. Only the node program knows what nodes start.
func leftovers(node []string, verb, dir string) (ended int, err error) {
	command := exec.Command(node[0], slices.Concat(node[1:], []string{"leftovers", verb, dir})...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C does not interrupt the cleanup
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

// Abandoned returns the temporary folders of killed clusters. A running cluster holds the lock of its folder.
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

// TemporaryPrefix is the start of the names of temporary folders, which are removed with their clusters.
const TemporaryPrefix = "synapse-up-"
