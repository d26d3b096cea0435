// Package fault says whose fault it is that a task was refused, or could not be started. It owns the three answers that
// a driver has and how an error carries one. The leader decides what follows from an answer, never a machine.
package fault

import "errors"

// Fault is whose fault something is.
type Fault string

const (
	// Unknown is what depends on the machine as well as on the job: a path, a user or an image that is not there. It is
	// what an error says that was given no fault: a driver that forgets to blame somebody must not close its machine.
	Unknown Fault = ""
	// Job is decided from the job's words and the machine's policy alone. No other try can end otherwise.
	Job Fault = "job"
	// Machine is what no job named: the agent's own directories, control groups, namespaces, a GPU that has gone.
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
