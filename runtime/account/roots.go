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

// This file assigns id ranges to tasks that are root inside their containers. The ranges matter only on this node,
// because no file outside of the task's layer belongs to them. Therefore no leader assigns them, and on another node a
// task has another range.

// DefaultRoots is the default range, for a thousand such tasks per node. It does not overlap the ranges that
// distributions and container engines give to users.
const DefaultRoots = "400000000-465535999"

// Roots gives each root task a separate part of the range. The holder of a part is the task's folder, which contains
// its layer. The part is taken for as long as the folder exists. One file per part names its holder for later agents.
type Roots struct {
	dir  string
	all  topology.UIDRange
	size uint32 // of a part

	mu   sync.Mutex
	next uint32
}

// OpenRoots opens the directory of these files, and makes it if needed.
func OpenRoots(dir string, all topology.UIDRange, size uint32) (*Roots, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("roots: %w", err)
	}
	return &Roots{dir: dir, all: all, size: size}, nil
}

func (r *Roots) parts() uint32 { return uint32(r.all.Len()) / r.size }

// Take returns the first id of a folder's part. A folder keeps its part. Free parts are assigned in turn, the longest
// free first.
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
		return 0, fmt.Errorf("user: each root task needs a separate id range, and all %d parts of --root-uids %v are in "+
			"use; widen the range, or retry when such tasks have ended", r.parts(), r.all)
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

// note writes the holder of a part. A part with an incomplete file was never assigned.
func (r *Roots) note(path, holder string) error {
	return file.Replace(path, []byte(holder))
}

// there reports whether a holder's folder still exists. An unknown state counts as existing.
func there(holder string) bool {
	_, err := os.Lstat(holder)
	return strings.HasPrefix(holder, "/") && !errors.Is(err, fs.ErrNotExist)
}

// CheckRoots refuses a range for roots that is too small for one task, or that overlaps the node's users or the uids of
// jobs.
func CheckRoots(roots, uids topology.UIDRange, size uint32) error {
	return checkRoots("", roots, uids, size)
}

func checkRoots(root string, roots, uids topology.UIDRange, size uint32) error {
	switch {
	case roots.Len() == 0:
		return nil
	case uint32(roots.Len()) < size:
		return fmt.Errorf("%v has %d ids, but each task needs %d", roots, roots.Len(), size)
	case uids.Len() > 0 && roots.First <= uids.Last && uids.First <= roots.Last:
		return fmt.Errorf("%v overlaps with --uids %v", roots, uids)
	}
	return checkUIDs(root, roots)
}
