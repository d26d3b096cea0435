// Package fault defines the party at fault when a task was refused or could not start. It owns the three possible
// answers of a driver, and attaches one to an error. The leader decides the consequences, never a node.
package fault

import "errors"

// Fault names the party at fault: job, node or unknown.
type Fault string

const (
	// Unknown means that the cause depends on both the node and the job: a path, user or image that does not exist.
	// It is also the default of an error without a fault. A driver that forgets the fault must not close its node.
	Unknown Fault = ""
	// Job means that only the job's spec and the node's policy caused the failure, so another try has the same
	// result.
	Job Fault = "job"
	// Machine means that the job did not name the cause, such as the agent's own directories, cgroups, namespaces,
	// or a missing GPU.
	Machine Fault = "machine"
)

// blamed is an error with its fault.
type blamed struct {
	error
	of Fault
}

func (b blamed) Unwrap() error { return b.error }
func (b blamed) Fault() Fault  { return b.of }

// OfJob attaches the fault Job to an error. An error that already has a fault keeps it.
func OfJob(err error) error { return By(Job, err) }

// OfMachine attaches the fault Machine to an error. An error that already has a fault keeps it.
func OfMachine(err error) error { return By(Machine, err) }

// By attaches a fault to an error that has none.
func By(of Fault, err error) error {
	if err == nil || of == Unknown || Of(err) != Unknown {
		return err
	}
	return blamed{err, of}
}

// Of returns the fault of an error.
func Of(err error) Fault {
	var found interface{ Fault() Fault }
	if errors.As(err, &found) {
		return found.Fault()
	}
	return Unknown
}
