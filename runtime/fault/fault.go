// Package fault says whose fault it is that a task was refused or could not start. It owns the three answers of a
// driver and how an error carries one. The leader decides what follows from an answer, never a machine.
package fault

import "errors"

// Fault names the party at fault: job, node or unknown.
type Fault string

const (
	// Unknown is what depends on the machine and on the job: a path, a user or an image that is not there. It is also the
	// fault of an error that was given none: a driver that forgets to name one must not close its machine.
	Unknown Fault = ""
	// Job: the job's spec and the machine's policy alone decide, so no other try can end differently.
	Job Fault = "job"
	// Machine: the cause is something that no job named, such as the agent's own directories, control groups, namespaces,
	// or a GPU that has gone.
	Machine Fault = "machine"
)

// blamed is an error with its fault.
type blamed struct {
	error
	of Fault
}

func (b blamed) Unwrap() error { return b.error }
func (b blamed) Fault() Fault  { return b.of }

// OfJob blames the job for an error. The fault that was found nearest to the cause stays.
func OfJob(err error) error { return By(Job, err) }

// OfMachine blames the machine for an error. The fault that was found nearest to the cause stays.
func OfMachine(err error) error { return By(Machine, err) }

// By gives an error a fault, unless it has one.
func By(of Fault, err error) error {
	if err == nil || of == Unknown || Of(err) != Unknown {
		return err
	}
	return blamed{err, of}
}

// Of is the fault that an error carries.
func Of(err error) Fault {
	var found interface{ Fault() Fault }
	if errors.As(err, &found) {
		return found.Fault()
	}
	return Unknown
}
