//go:build linux

package carapace

// This file owns the records of the host's containers. Each container has one directory, locked while the process lives
// that started it. The lock shows whether the container lives, and not a pid, which may be reused. The lock always ends
// with its holder, so a process that gets the lock may remove the remains.

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
	// Pid is the pid of the container's init, or 0 before the start. StartTicks (since boot) and BootID distinguish
	// it from a later process of the same pid.
	Pid        int      `json:"pid"`
	StartTicks uint64   `json:"startTicks,omitempty"`
	BootID     string   `json:"bootId,omitempty"`
	Created    string   `json:"created,omitempty"`
	Command    []string `json:"command,omitempty"`
	Cgroups    []string `json:"cgroups,omitempty"`
	Unenforced []string `json:"unenforced,omitempty"`
}

// Files of a container's directory. In the container's mount namespace, its root is mounted on this directory.
const (
	stateFile = "state.json"
	lockFile  = "lock"
	overFile  = "over" // exists while the remains of a dead container are removed
)

var (
	// ErrExists reports a second start of an id whose container lives.
	ErrExists = errors.New("a container with this id already runs")
	// ErrNotFound reports an id that no living container has.
	ErrNotFound = errors.New("no living container has this id")
)

// DefaultStateDir returns the state directory of this user.
func DefaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/run/carapace"
	}
	return fmt.Sprintf("/run/user/%d/carapace", os.Geteuid())
}

// lockedDir is a container's directory whose lock this process holds.
type lockedDir struct {
	folder string
	lock   file
}

// take claims an id, or returns ErrExists. existed reports that the directory of a dead container was found. If another
// process is removing a dead container, take waits for it.
func take(stateDir, id string) (d *lockedDir, existed bool, err error) {
	folder := filepath.Join(stateDir, id)
	looks := 0       // tries after overFile was last seen; its writer holds the lock a little longer than the file exists
	for range 1000 { // Each failed round means that a sweep removed the directory, or is about to.
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
	return nil, false, fmt.Errorf("state directory %s keeps vanishing: %w", folder, err)
}

// isOver reports whether the holder of the lock is removing the directory.
func isOver(folder string) bool {
	return unix.Access(filepath.Join(folder, overFile), unix.F_OK) == nil
}

// lockFolder locks a directory. It returns fs.ErrNotExist if the directory vanished, and ErrExists if another process
// holds the lock.
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
	// A sweep may have removed the file before the lock. The lock then has no effect on other processes.
	var ours, there unix.Stat_t
	if unix.Fstat(int(lock), &ours) != nil || unix.Stat(path, &there) != nil || ours.Ino != there.Ino ||
		ours.Dev != there.Dev {
		lock.Close()
		return nil, fs.ErrNotExist
	}
	_ = unix.Unlink(filepath.Join(folder, overFile)) // a leftover of a failed sweep
	return &lockedDir{folder, lock}, nil
}

// release removes the directory and its lock.
func (d *lockedDir) release() error {
	// The lock file is removed last, because without it any process may take the directory.
	for _, name := range []string{stateFile, overFile, lockFile} {
		_ = unix.Unlink(filepath.Join(d.folder, name))
	}
	err := error(nil)
	if unix.Rmdir(d.folder) != nil { // The directory has other files.
		err = tree.Remove(d.folder)
	}
	return errors.Join(err, d.lock.Close())
}

func (d *lockedDir) write(state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	// The record is written once, without rename and sync. A concurrent reader that finds a truncated record treats
	// it as missing. After a crash of the host, no container is left that needs its record.
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
		return state, nil // Claimed, but not started yet.
	}
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return State{ID: state.ID}, fmt.Errorf("state of %s: %w", state.ID, err)
	}
	return state, nil
}

// List returns all known containers by id, including dead ones that were not removed yet.
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

// isHeld reports whether a living process holds the directory. It tries a shared lock, so concurrent callers do not
// disturb each other.
func isHeld(folder string) bool {
	lock, err := openFile(filepath.Join(folder, lockFile), unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	return unix.Flock(int(lock), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// SignalID sends a signal to the container of this id, from any process of the host. SIGKILL ends all of its processes.
func SignalID(stateDir, id string, signal unix.Signal) error {
	if !goodID(id) {
		return &SpecError{"id", fmt.Sprintf("%.40q is not a valid container id", id)}
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
	// The pidfd is opened before the comparison, so it cannot refer to a later process.
	if ticks, err := startTicks(state.Pid); err != nil || ticks != state.StartTicks || bootID() != state.BootID {
		return fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	return sendSignal(pidfd, signal)
}

// GC removes the directories and cgroups of containers whose starter is dead, and returns their ids. It may run at the
// same time as living containers and other calls of GC. An empty Cgroups means the defaults.
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

// RemoveID removes the remains of one container whose starter is dead. ErrExists means that its starter lives. If it
// returns nil, nothing is left.
func RemoveID(stateDir, id string, cgroups Cgroups) error {
	if !goodID(id) {
		return &SpecError{"id", fmt.Sprintf("%.40q is not a valid container id", id)}
	}
	folder := filepath.Join(stateDir, id)
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil // It was removed completely, because the directory is removed last.
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

// StatsID returns the current resource use of a container, from any process of the host. Without cgroups, the values
// are zero.
func StatsID(stateDir, id string) (Stats, error) {
	if !goodID(id) {
		return Stats{}, &SpecError{"id", fmt.Sprintf("%.40q is not a valid container id", id)}
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

// StatsOf returns the resource use of a container's cgroups, one per hierarchy.
func StatsOf(leaves []string) Stats {
	var stats Stats
	for _, leaf := range leaves {
		// The files in a folder show which controllers it has.
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

// OOMKillsIn returns the number of processes in a container's cgroups that the kernel killed for lack of memory.
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

// RemoveLeaves kills the processes in abandoned cgroups and removes the cgroups. If it returns nil, nothing is left.
func RemoveLeaves(leaves []string) error {
	var failed []error
	for _, leaf := range leaves {
		failed = append(failed, removeTree(leaf, removeLimit))
	}
	return errors.Join(failed...)
}

// sweep removes the remains of a dead container, its processes first. Init is killed at its starter's death, but may
// take a moment to end.
func sweep(d *lockedDir, cgroups Cgroups) error {
	if over, err := openFile(filepath.Join(d.folder, overFile), unix.O_WRONLY|unix.O_CREAT, 0o600); err == nil {
		over.Close()
	}
	if err := clearAway(d, cgroups); err != nil {
		return errors.Join(err, d.lock.Close()) // The directory stays for the next sweep.
	}
	return d.release()
}

func clearAway(d *lockedDir, cgroups Cgroups) error {
	// An unreadable record loses nothing, because the names of the cgroups follow from the id.
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
