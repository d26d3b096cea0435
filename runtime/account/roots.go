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

// This file owns the numbers that tasks have which are root of a container of their own: whose they are on this
// machine, and when they are given again. They concern this machine alone, since nothing outside of the task's layer is
// ever theirs: so no leader gives them, and one task has other ones on another machine.

// DefaultRoots is the range without a flag: a thousand such tasks on a machine, beside what distributions and container
// engines give to people.
const DefaultRoots = "400000000-465535999"

// Roots gives each task that is root numbers of its own. Whoever has some is a folder, as long as that is there: that
// of the task, in which its layer lies. That is noted in a file for each part of the range, so that a later agent
// knows.
type Roots struct {
	dir  string
	all  topology.UIDRange
	size uint32 // of a part

	mu   sync.Mutex
	next uint32
}

// OpenRoots takes up a directory, which it makes.
func OpenRoots(dir string, all topology.UIDRange, size uint32) (*Roots, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("roots: %w", err)
	}
	return &Roots{dir: dir, all: all, size: size}, nil
}

func (r *Roots) parts() uint32 { return uint32(r.all.Len()) / r.size }

// Take gives a folder the first of its numbers: the same as long as it has them. None is given a second time before the
// others.
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

// note writes whose a part is. A torn one belongs to nobody, and has never been given.
func (r *Roots) note(path, holder string) error {
	return file.Replace(path, []byte(holder))
}

// there reports whether a holder has anything still. Where that cannot be known it has.
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
