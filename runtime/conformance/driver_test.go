//go:build linux

// Package conformance is one suite of container failures for all drivers. A driver implements the small interface of
// this file. It reports what it does not support, and the suite skips those cases with that reason.
//
// This file owns the interface. It must not depend on any driver.
package conformance

import (
	"os"
	"syscall"
	"time"
)

// Task describes a task that the suite runs with a driver.
type Task struct {
	ID      string
	Rootfs  string // a directory
	Command []string
	Env     []string
	User    string // "uid:gid"; empty is root
	// The limits; 0 means none.
	MemoryBytes int64
	Pids        int64
	MilliCPU    int64
	DiskBytes   int64 // enforced only by an agent
	// Mounts maps paths of the container to paths of the host.
	Mounts  map[string]string
	Devices []string
	CapAdd  []string

	Stdin, Stdout, Stderr *os.File
}

// Exit describes how a task ended, with the exit code of a shell.
type Exit struct {
	Code int
	OOM  bool
}

// Running is a started task.
type Running interface {
	// Done returns a channel that closes when no process and nothing else of the task is left.
	Done() <-chan struct{}
	Exit() Exit // valid after Done
	Signal(syscall.Signal) error
	Kill() error
}

// ExecSpec describes an exec session.
type ExecSpec struct {
	Command  []string
	Env      []string
	Terminal bool
	// The streams of a session without a terminal.
	Stdin, Stdout, Stderr *os.File
}

// ExecSession is a running exec session.
type ExecSession interface {
	Near() *os.File // the near end of its terminal; nil: there is none
	Wait() int      // waits for the end and returns the exit code
	Signal(syscall.Signal) error
	HangUp()
}

// Joinable is a task that supports exec sessions.
type Joinable interface {
	Exec(ExecSpec) (ExecSession, error)
}

// Trait is a feature that some drivers or hosts lack.
type Trait string

const (
	Rootfs       Trait = "a rootfs of its own"
	Namespaces   Trait = "namespaces of its own"
	Memory       Trait = "a memory limit"
	Pids         Trait = "a limit of processes"
	Devices      Trait = "a device filter"
	Init         Trait = "an init"
	ReportsOOM   Trait = "word of a lack of memory"
	PidsExact    Trait = "a limit of one process"
	PlainRoot    Trait = "a refusal of linked system directories"
	SetupCode    Trait = "exit code 125 where set-up fails"
	ExecCodes    Trait = "exit codes 126 and 127 as shells have them"
	Streams      Trait = "streams that nobody but the task holds"
	Handed       Trait = "the very streams that it was handed"
	EarlyKill    Trait = "exit code 137 for one killed in its start"
	ManyAtOnce   Trait = "hundreds of starts at once"
	Users        Trait = "users other than root"
	OwnDev       Trait = "a /dev of its own"
	Links        Trait = "mount targets by way of an image's links"
	ExecSessions Trait = "exec sessions"
)

// Driver runs tasks.
type Driver interface {
	// Lacks returns the reason why a trait is missing, or an empty text.
	Lacks(Trait) string
	// Start runs a task. If that fails, it returns an error with an ExitCode method (125, 126, 127). A driver that
	// detects the failure later returns a task that ends with that code.
	Start(Task) (Running, error)
	// Leavings lists remains of this driver's tasks on the host, such as cgroups and directories.
	Leavings() ([]string, error)
}

// limit bounds every wait of the suite.
var limit = 30 * time.Second
