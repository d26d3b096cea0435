//go:build linux

package carapace

// What is told about a container while it lives and when it is over. These are values only: the caller decides where
// they are written.

import (
	"errors"
	"fmt"

	"github.com/yi-json/synapse/runtime/carapace/fork"
)

// Event is one line of `carapace run --status-fd`. The events of a container come in the order created, started, oom
// (where it happens), exited. One whose command could not be run has no started, and one that could not be made no
// created.
type Event struct {
	Event      string   `json:"event"`
	ID         string   `json:"id,omitempty"`
	Pid        int      `json:"pid,omitempty"`
	Unenforced []string `json:"unenforced,omitempty"`
	*Exit
}

const (
	EventCreated = "created"
	EventStarted = "started"
	EventOOM     = "oom"
	EventExited  = "exited"
)

// Exit is how a container ended. Code is as shells have it: the command's own, 128 + signal, or 125, 126, 127.
type Exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// OOM says that the kernel killed something of the container for want of memory.
	OOM bool `json:"oom,omitempty"`
	// Reason is empty for a command that ended by itself.
	Reason string `json:"reason,omitempty"`
	// Leftover is what could not be removed, for whoever has to look after the machine.
	Leftover string `json:"leftover,omitempty"`
	Usage    Usage  `json:"usage"`
}

// Usage holds the total use of a container.
type Usage struct {
	CPUNs           int64 `json:"cpuNs"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	WallNs          int64 `json:"wallNs"`
}

// Stats holds the present use of a running container.
type Stats struct {
	CPUNs           int64 `json:"cpuNs"`
	MemoryBytes     int64 `json:"memoryBytes"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	Processes       int   `json:"processes"`
}

// The exit codes of a container whose command never ran, as shells and other runtimes have them.
const (
	CodeSetupFailed   = fork.CodeFailed
	CodeNotExecutable = 126
	CodeNotFound      = 127
	codeSignal        = fork.CodeSignal
)

// StartError is a container that did not start. Nothing of it is left. fault.Of says whose fault it is.
type StartError struct {
	Code         int
	Step, Reason string
	// Err is the cause where it is known on this side of the process boundary.
	Err error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %s", e.Step, e.Reason) }
func (e *StartError) Unwrap() error { return e.Err }

// fail wraps what went wrong with the step it went wrong in, unless it says so itself.
func fail(step string, err error) *StartError {
	var failure *StartError
	if errors.As(err, &failure) {
		return failure
	}
	return &StartError{CodeSetupFailed, step, err.Error(), err}
}
