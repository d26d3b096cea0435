package protocol

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a job is told to give way to another, and that it need not.

type (
	// Preempt: stop this attempt for another job, whose promise on disk says so. Scheduler → Job.
	Preempt struct {
		Token topology.Token
		For   *messages.Preemption
	}
	// Spared: it need not be, if its end is not on its way to disk yet. Scheduler → Job.
	Spared struct {
		Token topology.Token
		For   topology.JobID
	}
)

// IsInside reports whether an attempt was stopped for another job of its queue. How often and how soon again that may
// be is bounded; what is taken back minds neither.
func IsInside(end *messages.End) bool {
	switch end.GetPreemption().GetRule() {
	case messages.PreemptionRule_PREEMPTION_RULE_PRIORITY, messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		return true
	}
	return false
}
