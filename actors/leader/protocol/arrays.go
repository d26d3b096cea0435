package protocol

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what an array and the Scheduler say to each other of its elements.

// ArrayStep is by how much the reach of an array's record grows: that many elements may have been jobs that are over
// and that the record does not know, when its leader dies.
const ArrayStep = 128

type (
	// Sprout: an element may become a job, with this spec. Array → Scheduler, who answers with ElementMoved.
	Sprout struct {
		Array *messages.JobRecord
		Index int32
		Spec  *messages.JobSpec
	}
	// ElementMoved: an element is a job, and waits, runs or has ended. Scheduler → Array.
	ElementMoved struct {
		Index int32
		Runs  bool
		Held  bool // it waits, and does not start before somebody releases it
		Over  bool
		State messages.JobState // of its end
	}
	// Probe: was this element ever a job? Array → Scheduler, who answers with ElementMoved or ElementNever.
	Probe struct {
		Array topology.JobID
		Index int32
	}
	ElementNever struct{ Index int32 }
	// ElementsTold: those that live have all been told of. Scheduler → Array.
	ElementsTold struct{ Fresh bool }
)

type (
	// Allows: so many of an array's elements may run at once; that is on disk. Array → Scheduler.
	Allows struct {
		Array topology.JobID
		Most  int32
	}
	// HeldBack: an element is a job, and is not planned before somebody releases it. Job → Scheduler, who passes it on to
	// the array.
	HeldBack struct{ Job topology.JobID }
)
