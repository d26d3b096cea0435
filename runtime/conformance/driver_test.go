//go:build linux

// Package conformance is one suite of container failures for every driver that runs tasks. A driver is plugged in
// through the small interface of this file; what it cannot do it says, and the suite skips those cases with that
// reason.
//
// This file owns the interface. It must never know any driver.
package conformance

import (
	"os"
	"syscall"
	"time"
)

// Task is what the suite asks a driver to run.
type Task struct {
	ID      string
	Rootfs  string // a directory
	Command []string
	Env     []string
	User    string // "uid:gid"; empty is root
	// The limits; zero is none.
	MemoryBytes int64
	Pids        int64
	MilliCPU    int64
	DiskBytes   int64 // of what a machine's agent watches
	// Mounts are the machine's paths by those of the container.
	Mounts  map[string]string
	Devices []string
	CapAdd  []string

	Stdin, Stdout, Stderr *os.File
}

// Exit is how a task ended, with a shell's code.
type Exit struct {
	Code int
	OOM  bool
}

// Running is a task that was started.
type Running interface {
	// Done is closed when no process of the task is left, and nothing else of it.
	Done() <-chan struct{}
	Exit() Exit // after Done
	Signal(syscall.Signal) error
	Kill() error
}

// ExecSpec says what an exec session runs.
type ExecSpec struct {
	Command  []string
	Env      []string
	Terminal bool
	// The streams of one without a terminal.
	Stdin, Stdout, Stderr *os.File
}

// ExecSession is an exec session that runs.
type ExecSession interface {
	Near() *os.File // the near end of its terminal; nil: it has none
	Wait() int      // for its end, which it answers as a shell does
	Signal(syscall.Signal) error
	HangUp()
}

// Joinable is a task in which exec sessions can be run.
type Joinable interface {
	Exec(ExecSpec) (ExecSession, error)
}

// Trait is something that not every driver, or not every machine, can do.
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
	// Lacks answers why a trait cannot be had, or nothing.
	Lacks(Trait) string
	// Start runs a task. Where it cannot, it answers an error with an ExitCode method (125, 126, 127), or, where a driver
	// finds out only later, a task that ends with that code.
	Start(Task) (Running, error)
	// Leavings lists what is on the machine of tasks of this driver that should be gone: cgroups, directories.
	Leavings() ([]string, error)
}

// limit bounds every wait of the suite: what takes longer hangs.
var limit = 30 * time.Second
