// Package supervisor holds the small process between the agent and one task. The launcher starts it with what a driver
// wrote, and it outlives the agent: it starts the task (a container by package carapace, one of another program, or
// plain processes), keeps its output, stops it, sees how it ended and that nothing of it is left, and writes that down.
// How the task is isolated is decided before it starts. The agent talks to it through the task's directory. It uses
// little beside what makes containers and the standard library, so that it stays small.
package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/file"
)

// This file owns what lies in a task's directory. The exit record is evidence and
// survives a power loss; what else is here means something in one boot only.

const (
	specFile    = "spec.json"
	stateFile   = "state.json"
	exitFile    = "exit.json"
	lockFile    = "lock"
	controlFile = "control"
	execFile    = "errands" // as agents and supervisors of earlier versions know it
	errorFile   = "supervisor.err"
	// exitReserve is as large as an exit record can be. It is written before the
	// task starts, so that a disk that fills up later cannot keep the record from
	// being written.
	exitReserve = 8192
	// stateReserve is likewise for the second state: the task has been made by then.
	stateReserve = 512
)

// Spec holds the instructions for a supervisor.
type Spec struct {
	Path   string   `json:"path"` // what is executed; a name without a slash is looked up in PATH of Env
	Args   []string `json:"args"` // with argument zero
	Env    []string `json:"env"`
	Dir    string   `json:"dir"`
	User   *User    `json:"user,omitempty"`
	Limits []Limit  `json:"limits,omitempty"`
	// Cgroup is a leaf of the unified hierarchy that the driver made for the
	// task; empty: none. The supervisor starts the task in it, kills through it
	// and removes it.
	Cgroup string `json:"cgroup,omitempty"`
	// Confine is what the command may do to the machine; nil: whatever its user may.
	Confine *Confinement `json:"confine,omitempty"`
	// Container or Detached is what is run in place of a command, if there is one: then nothing
	// above counts, but for the environment of the program that makes the detached one.
	Container *Container `json:"container,omitempty"`
	Detached  *Detached  `json:"detached,omitempty"`

	StopSignal     int   `json:"stop_signal"` // of a stop by the supervisor itself
	GraceMs        int64 `json:"grace_ms"`
	StopWhenLostMs int64 `json:"stop_when_lost_ms"`
	HeardNs        int64 `json:"heard_ns,omitempty"` // when the machine last surely reached the control plane, by this boot's clock; 0: not known

	// Notice is a line that stands before what the task writes to its errors; empty: none.
	Notice string `json:"notice,omitempty"`

	SegmentBytes int64 `json:"segment_bytes"` // of a log …
	Segments     int   `json:"segments"`      // … and how many of them are kept

	// Held are what the supervisor is handed beside this, as its descriptors from FirstHeld on. Start closes them here.
	Held []*os.File `json:"-"`

	// Secrets is the descriptor with the task's secrets, one of Held; 0: it has none. What is read from there is written
	// to no file.
	Secrets int `json:"secrets,omitempty"`

	BootID string `json:"boot_id"`
	// Key is what an agent that connects later must show, drawn at random for each supervisor. A socket's place can be
	// hidden from nobody by Landlock, but this file can.
	Key Key `json:"key,omitzero"`
}

// Key is two numbers that nobody guesses; zeros: none is asked for.
type Key [2]int64

// User is the user as which the command runs; nil: as the supervisor.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

// Limit is one of the kernel's limits on a process.
type Limit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// State is how far a supervisor is. It is written before the command is spawned
// and again after, so that a supervisor that is killed in between counts as one
// that had spawned.
type State struct {
	BootID string `json:"boot_id"`
	PID    int    `json:"pid"`   // of the command, which leads its session; 0: about to be spawned
	Start  uint64 `json:"start"` // when it started, in the kernel's ticks: a pid alone may be reused
}

// ticks is how many of the kernel's ticks, as user space sees them, are in a second.
const ticks = 100

// BeganNs is when the command began, by the clock of its boot; 0: it has not.
func (s *State) BeganNs() int64 { return int64(s.Start) * int64(time.Second/ticks) }

// The kinds of exits.
const (
	Exited        = "exited"         // it ran and is gone
	LaunchFailed  = "launch_failed"  // it was never run, and that is not its fault
	PrepareFailed = "prepare_failed" // written by the agent
	NeverStarted  = "never_started"  // written by the agent, and where the disk was full
	Rebooted      = "rebooted"       // written by the agent
	Lost          = "lost"           // written by the agent: gone, and nobody saw how
)

// Exit is how a task ended: evidence that nothing of it runs.
type Exit struct {
	Kind            string `json:"kind"`
	Code            int    `json:"code"`
	Signal          int    `json:"signal,omitempty"`
	OOM             bool   `json:"oom,omitempty"`
	Disk            bool   `json:"disk,omitempty"` // it was ended for what it kept on the disk
	AtUnixMs        int64  `json:"at_unix_ms"`
	ByItself        bool   `json:"by_itself,omitempty"` // it ended before anybody told it to stop
	Detail          string `json:"detail,omitempty"`
	PeakMemoryBytes int64  `json:"peak_memory_bytes,omitempty"`
	DroppedLogBytes int64  `json:"dropped_log_bytes,omitempty"`
	// Fault is whose fault it is that the task was never run.
	Fault fault.Fault `json:"fault,omitempty"`
}

// ErrTorn is returned for a record that was not written whole.
var ErrTorn = errors.New("the record is torn")

// ReadExit reads the exit record; nil when there is none.
func ReadExit(dir string) (*Exit, error) {
	exit := &Exit{}
	found, err := readJSON(filepath.Join(dir, exitFile), exit)
	if !found || err != nil {
		return nil, err
	}
	if exit.Kind == "" {
		return nil, fmt.Errorf("exit record of %s: %w", dir, ErrTorn)
	}
	return exit, nil
}

// ReadState reads how far a supervisor was; nil when none was ever about to spawn.
func ReadState(dir string) (*State, error) {
	state := &State{}
	found, err := readJSON(filepath.Join(dir, stateFile), state)
	if !found || err != nil {
		return nil, err
	}
	return state, nil
}

// WriteExit makes an exit record durable: the file, then its name.
func WriteExit(dir string, exit *Exit) error {
	if len(exit.Detail) > 2048 {
		exit.Detail = strings.ToValidUTF8(exit.Detail[:2048], "")
	}
	if exit.AtUnixMs == 0 {
		exit.AtUnixMs = time.Now().UnixMilli()
	}
	data, err := json.Marshal(exit)
	for err == nil && len(data) >= exitReserve && exit.Detail != "" { // JSON writes many a byte as six
		exit.Detail = strings.ToValidUTF8(exit.Detail[:len(exit.Detail)/2], "")
		data, err = json.Marshal(exit)
	}
	if err != nil {
		return fmt.Errorf("exit record: %w", err)
	}
	for len(data) < exitReserve-1 {
		data = append(data, ' ') // exactly over what was reserved
	}
	if err := file.ReplaceDurably(filepath.Join(dir, exitFile), append(data, '\n')); err != nil {
		return fmt.Errorf("%s: %w", exitFile, err)
	}
	return nil
}

// reserve takes the room that a record's next version will need, where file.Replace will look for it.
func reserve(dir, name string, bytes int) error {
	blank := []byte(strings.Repeat(" ", bytes))
	if err := os.WriteFile(file.Spare(filepath.Join(dir, name)), blank, 0o600); err != nil {
		return fmt.Errorf("reserve %s: %w", name, err)
	}
	return nil
}

func writeJSON(dir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := file.Replace(filepath.Join(dir, name), data); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readJSON reports whether the file is there, and why what is there cannot be read.
func readJSON(name string, value any) (bool, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return true, fmt.Errorf("%s: %w", name, ErrTorn)
	}
	return true, nil
}

// lock takes the task's lock; held tells that somebody else has it. The kernel
// gives it back when its last holder has died, however that happened, so that
// whether a supervisor lives is never read from a pid.
func lock(dir string) (file *os.File, held bool, err error) {
	file, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock of %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		file.Close()
		return nil, true, nil
	}
	if err != nil {
		file.Close()
		return nil, false, fmt.Errorf("lock of %s: %w", dir, err)
	}
	return file, false, nil
}
