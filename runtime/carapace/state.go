//go:build linux

package carapace

// What a machine knows of its containers: one directory each, locked for as long as the process lives that started it.
// The lock, not a pid, shows whether a container lives: a pid may be that of another process by now, and a lock ends
// with its holder whatever ends it. So whoever gets the lock may remove what is left.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// State holds the contents of a container's directory.
type State struct {
	ID      string `json:"id"`
	Running bool   `json:"running"`
	// Pid is that of the container's init, or 0 before it was started. StartTicks (since boot) and BootID tell it from a
	// later process of the same number.
	Pid        int      `json:"pid"`
	StartTicks uint64   `json:"startTicks,omitempty"`
	BootID     string   `json:"bootId,omitempty"`
	Created    string   `json:"created,omitempty"`
	Command    []string `json:"command,omitempty"`
	Cgroups    []string `json:"cgroups,omitempty"`
	Unenforced []string `json:"unenforced,omitempty"`
}

// The files of a container's directory. In the container's own mount namespace its root is mounted upon the directory.
const (
	stateFile = "state.json"
	lockFile  = "lock"
	overFile  = "over" // there while a dead container's leavings are cleared away
)

var (
	// ErrExists is a second start of an id whose container lives.
	ErrExists = errors.New("a container of this id is alive")
	// ErrNotFound is an id that no living container has.
	ErrNotFound = errors.New("no living container has this id")
)

// DefaultStateDir is where the containers of this user are known.
func DefaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/run/carapace"
	}
	return fmt.Sprintf("/run/user/%d/carapace", os.Geteuid())
}

// lockedDir is a container's directory that we hold the lock of.
type lockedDir struct {
	folder string
	lock   file
}

// take claims an id, or answers ErrExists. existed says that a dead container's directory was found. What is being
// cleared away of one is waited for.
func take(stateDir, id string) (d *lockedDir, existed bool, err error) {
	folder := filepath.Join(stateDir, id)
	looks := 0       // since somebody was last seen to clear it away: that has the lock before and after it says so
	for range 1000 { // Each round lost means that a sweep took the directory away in between, or is about to.
		err = os.Mkdir(folder, 0o700)
		existed = errors.Is(err, fs.ErrExist)
		if errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(stateDir, 0o755); err != nil {
				return nil, false, fmt.Errorf("state directory: %w", err)
			}
			continue
		}
		if err != nil && !existed {
			return nil, false, fmt.Errorf("state directory: %w", err)
		}
		d, err = lockFolder(folder, unix.O_CREAT)
		switch {
		case errors.Is(err, ErrExists) && isOver(folder):
			looks = 0
			time.Sleep(10 * time.Millisecond)
		case errors.Is(err, ErrExists) && looks == 0:
			looks++
			time.Sleep(10 * time.Millisecond)
		case !errors.Is(err, fs.ErrNotExist):
			return d, existed, err
		}
	}
	if errors.Is(err, ErrExists) {
		return nil, false, err
	}
	return nil, false, fmt.Errorf("state directory %s comes and goes: %w", folder, err)
}

// isOver reports whether the holder of a directory clears it away.
func isOver(folder string) bool {
	return unix.Access(filepath.Join(folder, overFile), unix.F_OK) == nil
}

// lockFolder takes the lock of a directory; fs.ErrNotExist where it vanished, ErrExists where somebody else holds it.
func lockFolder(folder string, create int) (*lockedDir, error) {
	path := filepath.Join(folder, lockFile)
	lock, err := openFile(path, unix.O_RDWR|create, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if err == unix.EWOULDBLOCK {
			return nil, ErrExists
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// A sweep may have removed the file between the opening and the lock; then we hold a lock that nobody else sees.
	var ours, there unix.Stat_t
	if unix.Fstat(int(lock), &ours) != nil || unix.Stat(path, &there) != nil || ours.Ino != there.Ino ||
		ours.Dev != there.Dev {
		lock.Close()
		return nil, fs.ErrNotExist
	}
	_ = unix.Unlink(filepath.Join(folder, overFile)) // an earlier sweep has failed
	return &lockedDir{folder, lock}, nil
}

// release removes the directory, and the lock with it.
func (d *lockedDir) release() error {
	// The lock goes last: without it anybody may take the directory.
	for _, name := range []string{stateFile, overFile, lockFile} {
		_ = unix.Unlink(filepath.Join(d.folder, name))
	}
	err := error(nil)
	if unix.Rmdir(d.folder) != nil { // There is more in it, or less.
		err = tree.Remove(d.folder)
	}
	return errors.Join(err, d.lock.Close())
}

func (d *lockedDir) write(state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	// Written once, and neither renamed nor synced: a reader in between finds a record that is cut short, and takes it for
	// one that is not there yet; and after a crash of the machine nothing is left that it could be about.
	to, err := openFile(filepath.Join(d.folder, stateFile), unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return errors.Join(err, to.Close())
}

func readState(folder string) (State, error) {
	state := State{ID: filepath.Base(folder)}
	text, err := readFile(filepath.Join(folder, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil // Claimed, not yet started.
	}
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return State{ID: state.ID}, fmt.Errorf("state of %s: %w", state.ID, err)
	}
	return state, nil
}

// List answers every container that is known, the dead ones that nobody swept among them, by id.
func List(stateDir string) ([]State, error) {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	var states []State
	for _, entry := range entries {
		folder := filepath.Join(stateDir, entry.Name())
		if !entry.IsDir() || !goodID(entry.Name()) {
			continue
		}
		state, err := readState(folder)
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		state.Running = isHeld(folder)
		states = append(states, state)
	}
	return states, nil
}

// isHeld reports whether a living process holds the directory. A shared lock is enough to ask, and disturbs no other
// asker.
func isHeld(folder string) bool {
	lock, err := openFile(filepath.Join(folder, lockFile), unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	return unix.Flock(int(lock), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// SignalID sends a signal to a container by its id, from any process of the machine. SIGKILL ends all of it.
func SignalID(stateDir, id string, signal unix.Signal) error {
	if !goodID(id) {
		return &SpecError{"id", fmt.Sprintf("%.40q is no container's id", id)}
	}
	folder := filepath.Join(stateDir, id)
	state, err := readState(folder)
	if err != nil {
		return err
	}
	if state.Pid == 0 || !isHeld(folder) {
		return fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	pidfd, err := unix.PidfdOpen(state.Pid, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	defer unix.Close(pidfd)
	// First the descriptor, then the comparison: what it points at cannot change any more.
	if ticks, err := startTicks(state.Pid); err != nil || ticks != state.StartTicks || bootID() != state.BootID {
		return fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	return sendSignal(pidfd, signal)
}

// GC removes the directories and cgroups of containers whose starter is dead, and answers their ids. It may run beside
// living ones, and beside another GC. cgroupParent empty is the default one.
func GC(stateDir string, cgroups Cgroups) ([]string, error) {
	entries, err := os.ReadDir(stateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	var swept []string
	var failed []error
	for _, entry := range entries {
		if !entry.IsDir() || !goodID(entry.Name()) {
			continue
		}
		c, err := lockFolder(filepath.Join(stateDir, entry.Name()), unix.O_CREAT)
		if errors.Is(err, ErrExists) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = sweep(c, cgroups)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", entry.Name(), err))
			continue
		}
		swept = append(swept, entry.Name())
	}
	removeParents(cgroups)
	slices.Sort(swept)
	return swept, errors.Join(failed...)
}

// RemoveID removes what a container left whose starter is dead: it is GC for one. ErrExists: its starter lives. Nothing
// is left when it answers nil.
func RemoveID(stateDir, id string, cgroups Cgroups) error {
	if !goodID(id) {
		return &SpecError{"id", fmt.Sprintf("%.40q is no container's id", id)}
	}
	folder := filepath.Join(stateDir, id)
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil // Whoever removed it removed the rest before.
	}
	c, err := lockFolder(folder, unix.O_CREAT)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if err := sweep(c, cgroups); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	return nil
}

// StatsID answers what a container uses now, from any process of the machine. Without cgroups that is nothing.
func StatsID(stateDir, id string) (Stats, error) {
	if !goodID(id) {
		return Stats{}, &SpecError{"id", fmt.Sprintf("%.40q is no container's id", id)}
	}
	state, err := readState(filepath.Join(stateDir, id))
	if err != nil {
		return Stats{}, err
	}
	if state.Pid == 0 || !isHeld(filepath.Join(stateDir, id)) {
		return Stats{}, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	return StatsOf(state.Cgroups), nil
}

// StatsOf answers what is used in a container's cgroups, one in each hierarchy.
func StatsOf(leaves []string) Stats {
	var stats Stats
	for _, leaf := range leaves {
		// Which controllers a folder has is told by the files in it.
		g := &cgroup{leaves: map[string]string{"": leaf, "memory": leaf, "cpuacct": leaf}}
		for _, g.unified = range []bool{true, false} {
			s := g.stats()
			stats.CPUNs = max(stats.CPUNs, s.CPUNs)
			stats.MemoryBytes = max(stats.MemoryBytes, s.MemoryBytes)
			stats.PeakMemoryBytes = max(stats.PeakMemoryBytes, s.PeakMemoryBytes)
			stats.Processes = max(stats.Processes, s.Processes)
		}
	}
	return stats
}

// OOMKillsIn counts what the kernel killed in a container's cgroups for want of memory.
func OOMKillsIn(leaves []string) int64 {
	var kills int64
	for _, leaf := range leaves {
		g := &cgroup{leaves: map[string]string{"": leaf, "memory": leaf}}
		for _, g.unified = range []bool{true, false} {
			kills = max(kills, g.oomKills())
		}
	}
	return kills
}

// RemoveLeaves kills what is in cgroups that nobody owns any more, and removes them. Nothing is in them when it answers
// nil.
func RemoveLeaves(leaves []string) error {
	var failed []error
	for _, leaf := range leaves {
		failed = append(failed, removeTree(leaf, removeLimit))
	}
	return errors.Join(failed...)
}

// sweep removes what a dead container left, its processes first. Init dies of its starter's death, but not at once.
func sweep(d *lockedDir, cgroups Cgroups) error {
	if over, err := openFile(filepath.Join(d.folder, overFile), unix.O_WRONLY|unix.O_CREAT, 0o600); err == nil {
		over.Close()
	}
	if err := clearAway(d, cgroups); err != nil {
		return errors.Join(err, d.lock.Close()) // The directory stays, for the next sweep.
	}
	return d.release()
}

func clearAway(d *lockedDir, cgroups Cgroups) error {
	// A record that cannot be read loses nothing: the names of the cgroups follow from the id.
	state, _ := readState(d.folder)
	if state.Pid > 0 && state.BootID == bootID() {
		if err := endInit(state, 5*time.Second); err != nil {
			return err
		}
	}
	leaves := append(slices.Clone(state.Cgroups), cgroups.leaves(filepath.Base(d.folder))...)
	slices.Sort(leaves)
	var failed []error
	for _, leaf := range slices.Compact(leaves) {
		failed = append(failed, removeTree(leaf, 5*time.Second))
	}
	return errors.Join(failed...)
}
