// Package supervisor implements the small process between the agent and one task. The launcher starts it with the
// specification of a driver, and it outlives the agent. It starts the task: a container of package carapace, a
// container of another program, or plain processes. It keeps the task's output and stops the task. It confirms that
// nothing of the task is left, and writes the exit record. The isolation of the task is decided before the start. The
// agent communicates with the supervisor through the task's directory. To stay small, the package uses little more than
// the container packages and the standard library.
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

// This file owns the files of a task's directory. The exit record is durable and survives a power failure. All other
// files are valid in one boot only.

const (
	specFile    = "spec.json"
	stateFile   = "state.json"
	exitFile    = "exit.json"
	lockFile    = "lock"
	controlFile = "control"
	execFile    = "errands" // the name that earlier versions use
	errorFile   = "supervisor.err"
	// exitReserve is the maximum size of an exit record. This much is written before the task starts, so that a
	// disk that fills up later cannot prevent the record.
	exitReserve = 8192
	// stateReserve is the same for the second state record, which is written when the task already exists.
	stateReserve = 512
)

// Spec holds the instructions for a supervisor.
type Spec struct {
	Path   string   `json:"path"` // the program; a name without a slash is searched in PATH of Env
	Args   []string `json:"args"` // including argument zero
	Env    []string `json:"env"`
	Dir    string   `json:"dir"`
	User   *User    `json:"user,omitempty"`
	Limits []Limit  `json:"limits,omitempty"`
	// Cgroup is a leaf of the unified hierarchy that the driver made for the task; empty: none. The supervisor
	// starts the task in it, kills through it, and removes it.
	Cgroup string `json:"cgroup,omitempty"`
	// Confine restricts the command's access to the host; nil: only the user's rights apply.
	Confine *Confinement `json:"confine,omitempty"`
	// Container or Detached replaces the command. The fields above are then unused, except the environment of the
	// program that makes a Detached.
	Container *Container `json:"container,omitempty"`
	Detached  *Detached  `json:"detached,omitempty"`

	StopSignal     int   `json:"stop_signal"` // of a stop by the supervisor itself
	GraceMs        int64 `json:"grace_ms"`
	StopWhenLostMs int64 `json:"stop_when_lost_ms"`
	// HeardNs is the latest time, by this boot's clock, at which the control plane is known to have received a message
	// from the node; 0: unknown.
	HeardNs int64 `json:"heard_ns,omitempty"`

	// Notice is a line before the task's error output; empty: none.
	Notice string `json:"notice,omitempty"`

	SegmentBytes int64 `json:"segment_bytes"` // of a log …
	Segments     int   `json:"segments"`      // … and the number of kept segments

	// Held lists further files for the supervisor, as its descriptors from FirstHeld on. Start closes them in the
	// agent.
	Held []*os.File `json:"-"`

	// Secrets is the descriptor with the task's secrets, one of Held; 0: there are none. Its content is never
	// written to a file.
	Secrets int `json:"secrets,omitempty"`

	BootID string `json:"boot_id"`
	// Key is the random key that a later agent must send. Landlock cannot hide the socket from a task, but it can
	// hide this file.
	Key Key `json:"key,omitzero"`
}

// Key is two random numbers; zeros: no key is required.
type Key [2]int64

// User is the user that runs the command; nil: the supervisor's user.
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

// State records the progress of a supervisor. It is written before the command is spawned and again after. A supervisor
// that is killed in between counts as one that has spawned the command.
type State struct {
	BootID string `json:"boot_id"`
	PID    int    `json:"pid"`   // of the command, which leads its session; 0: about to be spawned
	Start  uint64 `json:"start"` // start time in kernel ticks, because a pid may be reused
}

// ticks is the number of kernel ticks per second in user space.
const ticks = 100

// BeganNs returns when the command began, by the clock of its boot; 0: it has not begun.
func (s *State) BeganNs() int64 { return int64(s.Start) * int64(time.Second/ticks) }

// The kinds of exits.
const (
	Exited        = "exited"         // the task ran and has ended
	LaunchFailed  = "launch_failed"  // the task never ran, and that is not its fault
	PrepareFailed = "prepare_failed" // written by the agent
	NeverStarted  = "never_started"  // written by the agent, and for a full disk
	Rebooted      = "rebooted"       // written by the agent
	Lost          = "lost"           // written by the agent: the task is gone, but its end was not seen
)

// Exit records how a task ended. It confirms that nothing of the task runs.
type Exit struct {
	Kind            string `json:"kind"`
	Code            int    `json:"code"`
	Signal          int    `json:"signal,omitempty"`
	OOM             bool   `json:"oom,omitempty"`
	OOMScope        string `json:"oom_scope,omitempty"` // whose limit: task, parent or host
	Disk            bool   `json:"disk,omitempty"`      // ended for its disk usage
	NodeFull        bool   `json:"node_full,omitempty"` // because the node's disk was full, not at the task's own limit
	EndedBy         string `json:"ended_by,omitempty"`  // ByHost or ByNoContact
	EndedNs         int64  `json:"ended_ns,omitempty"`  // when the command ended, by the clock of this boot
	AtUnixMs        int64  `json:"at_unix_ms"`
	ByItself        bool   `json:"by_itself,omitempty"` // ended before it was told to stop
	Detail          string `json:"detail,omitempty"`
	PeakMemoryBytes int64  `json:"peak_memory_bytes,omitempty"`
	CPUNs           int64  `json:"cpu_ns,omitempty"` // of all its processes; 0: unknown
	DroppedLogBytes int64  `json:"dropped_log_bytes,omitempty"`
	// Fault is the party at fault if the task never ran.
	Fault fault.Fault `json:"fault,omitempty"`
}

// The parties that end a task without an order of the agent.
const (
	ByHost      = "host"       // a process outside the task
	ByNoContact = "no_contact" // stopWhenLost
)

// ErrTorn reports a record that was not written completely.
var ErrTorn = errors.New("the record is incomplete")

// ReadExit reads the exit record; nil if there is none.
func ReadExit(dir string) (*Exit, error) {
	exit := &Exit{}
	found, err := readJSON(filepath.Join(dir, exitFile), exit)
	if !found || err != nil {
		return nil, err
	}
	if exit.Kind == "" {
		return nil, fmt.Errorf("read the exit record of %s: %w", dir, ErrTorn)
	}
	return exit, nil
}

// ReadState reads the progress of a supervisor; nil if none was about to spawn a command.
func ReadState(dir string) (*State, error) {
	state := &State{}
	found, err := readJSON(filepath.Join(dir, stateFile), state)
	if !found || err != nil {
		return nil, err
	}
	return state, nil
}

// WriteExit writes an exit record durably: first the file, then its name.
func WriteExit(dir string, exit *Exit) error {
	if len(exit.Detail) > 2048 {
		exit.Detail = strings.ToValidUTF8(exit.Detail[:2048], "")
	}
	if exit.AtUnixMs == 0 {
		exit.AtUnixMs = time.Now().UnixMilli()
	}
	data, err := json.Marshal(exit)
	for err == nil && len(data) >= exitReserve && exit.Detail != "" { // JSON may encode one byte as six
		exit.Detail = strings.ToValidUTF8(exit.Detail[:len(exit.Detail)/2], "")
		data, err = json.Marshal(exit)
	}
	if err != nil {
		return fmt.Errorf("encode the exit record: %w", err)
	}
	for len(data) < exitReserve-1 {
		data = append(data, ' ') // the record uses exactly the reserved space
	}
	if err := file.ReplaceDurably(filepath.Join(dir, exitFile), append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", exitFile, err)
	}
	return nil
}

// reserve reserves disk space for a record's next version, at the path where file.Replace expects it.
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
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := file.Replace(filepath.Join(dir, name), data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// readJSON reports whether the file exists, and returns an error if it cannot be read.
func readJSON(name string, value any) (bool, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return true, fmt.Errorf("read %s: %w", name, ErrTorn)
	}
	return true, nil
}

// lock takes the task's lock. held reports that another process has it. The kernel releases the lock when its last
// holder has died, in any way. Therefore no pid is needed to check whether a supervisor lives.
func lock(dir string) (file *os.File, held bool, err error) {
	file, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open the lock of %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		file.Close()
		return nil, true, nil
	}
	if err != nil {
		file.Close()
		return nil, false, fmt.Errorf("take the lock of %s: %w", dir, err)
	}
	return file, false, nil
}
