package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/topology"
)

// This file owns the numbers of tasks that are root of their own containers: which task has which on this machine, and
// when they are given again. They concern this machine alone, because no file outside of the task's layer ever belongs
// to them: so no leader gives them, and on another machine a task has other numbers.

// DefaultRoots is the range without a flag: a thousand such tasks on a machine, beside what distributions and container
// engines give to people.
const DefaultRoots = "400000000-465535999"

// Roots gives each task that is root numbers of its own. The holder of a part is the task's folder, in which its layer
// lies, for as long as the folder exists. A file for each part of the range names its holder, so that a later agent
// knows it.
type Roots struct {
	dir  string
	all  topology.UIDRange
	size uint32 // of a part

	mu   sync.Mutex
	next uint32
}

// OpenRoots opens the directory of such files, and makes it if need be.
func OpenRoots(dir string, all topology.UIDRange, size uint32) (*Roots, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("roots: %w", err)
	}
	return &Roots{dir: dir, all: all, size: size}, nil
}

func (r *Roots) parts() uint32 { return uint32(r.all.Len()) / r.size }

// Take returns the first of a folder's numbers: the same as long as the folder has them. Numbers are given again in
// turn, the longest free first.
func (r *Roots) Take(holder string) (first uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, found := uint32(0), false
	for i := range r.parts() {
		part := (r.next + i) % r.parts()
		path := r.path(part)
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return 0, fault.OfMachine(fmt.Errorf("roots: %w", err))
		case string(text) == holder:
			return r.first(part), nil
		case there(string(text)):
			continue
		}
		if !found {
			free, found = part, true
		}
	}
	if !found {
		return 0, fmt.Errorf("user: root has numbers of its own in each task, and all %d parts of --root-uids %v are taken; "+
			"widen the range, or try again when such tasks are over", r.parts(), r.all)
	}
	if err := r.note(r.path(free), holder); err != nil {
		return 0, fault.OfMachine(fmt.Errorf("roots: %w", err))
	}
	r.next = free + 1
	return r.first(free), nil
}

func (r *Roots) path(part uint32) string {
	return filepath.Join(r.dir, strconv.Itoa(int(r.first(part))))
}

func (r *Roots) first(part uint32) uint32 { return r.all.First + part*r.size }

// note writes the holder of a part. A part whose note is torn was never given.
func (r *Roots) note(path, holder string) error {
	return file.Replace(path, []byte(holder))
}

// there reports whether a holder's folder still exists. Where that cannot be known it does.
func there(holder string) bool {
	_, err := os.Lstat(holder)
	return strings.HasPrefix(holder, "/") && !errors.Is(err, fs.ErrNotExist)
}

// CheckRoots refuses a range for roots that has no room for one task, or that meets the machine's users or the numbers
// of jobs.
func CheckRoots(roots, uids topology.UIDRange, size uint32) error {
	return checkRoots("", roots, uids, size)
}

func checkRoots(root string, roots, uids topology.UIDRange, size uint32) error {
	switch {
	case roots.Len() == 0:
		return nil
	case uint32(roots.Len()) < size:
		return fmt.Errorf("%v has %d numbers, and each task needs %d", roots, roots.Len(), size)
	case uids.Len() > 0 && roots.First <= uids.Last && uids.First <= roots.Last:
		return fmt.Errorf("%v meets --uids %v", roots, uids)
	}
	return checkUIDs(root, roots)
}
