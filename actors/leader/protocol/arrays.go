package protocol

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages between an Array and the Scheduler about elements.

// ArrayStep is the step by which the reach of an array's record grows. When a leader dies, at most this many elements
// may have become jobs and ended without being in the record.
const ArrayStep = 128

type (
	// Sprout requests that an element become a job with this spec. Array → Scheduler, answered by ElementMoved.
	Sprout struct {
		Array *messages.JobRecord
		Index int32
		Spec  *messages.JobSpec
	}
	// ElementMoved reports that an element is a job that waits, runs or has ended. Scheduler → Array.
	ElementMoved struct {
		Index int32
		Runs  bool
		Held  bool // it waits for its release
		Over  bool
		State messages.JobState // final state, if it has ended
	}
	// Probe asks whether this element ever was a job. Array → Scheduler, answered by ElementMoved or ElementNever.
	Probe struct {
		Array topology.JobID
		Index int32
	}
	ElementNever struct{ Index int32 }
	// ElementsTold reports that all live elements have been reported. Scheduler → Array.
	ElementsTold struct{ Fresh bool }
)

type (
	// Allows reports a concurrency limit of an array that is on disk. Array → Scheduler.
	Allows struct {
		Array topology.JobID
		Most  int32
	}
	// HeldBack reports that an element is a job and waits for its release. Job → Scheduler, which passes it on to the
	// Array.
	HeldBack struct{ Job topology.JobID }
)
