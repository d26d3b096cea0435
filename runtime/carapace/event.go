//go:build linux

package carapace

// This file defines the events and statistics of a container. They are plain values; the caller decides where they are
// written.

import (
	"errors"
	"fmt"

	"github.com/yi-json/synapse/runtime/carapace/fork"
)

// Event is one line of `carapace run --status-fd`. The events of a container have the order created, started, oom (if
// it happens), exited. If the command could not run, started is missing. If the container could not be made, created is
// missing too.
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

// Exit describes how a container ended. Code follows the shells: the command's own code, 128 + signal, or 125, 126,
// 127.
type Exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// OOM reports that the kernel killed a process of the container for lack of memory.
	OOM bool `json:"oom,omitempty"`
	// OOMScope is whose limit the kernel enforced, if OOM.
	OOMScope string `json:"oomScope,omitempty"`
	// Outside reports that a process outside the container killed its init.
	Outside bool `json:"outside,omitempty"`
	// Reason is empty if the command ended by itself.
	Reason string `json:"reason,omitempty"`
	// Leftover names what could not be removed, for the operator of the host.
	Leftover string `json:"leftover,omitempty"`
	Usage    Usage  `json:"usage"`
}

// Usage holds the total resource use of a container.
type Usage struct {
	CPUNs           int64 `json:"cpuNs"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	WallNs          int64 `json:"wallNs"`
}

// Stats holds the current resource use of a running container.
type Stats struct {
	CPUNs           int64 `json:"cpuNs"`
	MemoryBytes     int64 `json:"memoryBytes"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	Processes       int   `json:"processes"`
}

// Exit codes of a container whose command never ran, as in shells and other runtimes.
const (
	CodeSetupFailed   = fork.CodeFailed
	CodeNotExecutable = 126
	CodeNotFound      = 127
	codeSignal        = fork.CodeSignal
)

// StartError reports a container that did not start. Nothing of the container is left. fault.Of returns the party at
// fault.
type StartError struct {
	Code         int
	Step, Reason string
	// Err is the cause, if it is known on this side of the process boundary.
	Err error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %s", e.Step, e.Reason) }
func (e *StartError) Unwrap() error { return e.Err }

// fail wraps an error with the step that failed, unless the error already has a step.
func fail(step string, err error) *StartError {
	var failure *StartError
	if errors.As(err, &failure) {
		return failure
	}
	return &StartError{CodeSetupFailed, step, err.Error(), err}
}
