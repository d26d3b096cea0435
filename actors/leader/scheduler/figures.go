package scheduler

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a leader's actors measure for operators, by their process's steady clock. Nothing is decided by
// it.

// TookPass is that of how long a pass took.
const TookPass = "scheduler.pass"

// CountRefused begins the counters of what machines refused, and why.
const CountRefused = "refused."

// refusalName is a refusal's reason as it is counted.
func refusalName(r messages.RefusalReason) string {
	if r == messages.RefusalReason_REFUSAL_REASON_UNSPECIFIED {
		return "silence"
	}
	return actors.WordOf(r.String(), "REFUSAL_REASON_")
}

// kindOf is which kind of reason a refusal is: waiting jobs are counted by it.
func kindOf(r *topology.Refusal) mirror.WaitKind {
	switch {
	case *r == (topology.Refusal{}):
		return mirror.WaitTurn
	case r.Cause == topology.NoMatch:
		return mirror.WaitMatch
	case r.Cause != topology.NoRoom, r.Idle:
		return mirror.WaitNever
	case r.Patient:
		return mirror.WaitNearer
	}
	return mirror.WaitRoom
}

// outageOf is what puts a machine out of service, as its GPUs are counted.
func (m *machine) outageOf() mirror.Outage {
	if m.closed() == "" {
		return mirror.InService
	}
	switch kind, _ := m.outage(false); kind {
	case outageBenched:
		return mirror.Benched
	case outageDead, outageUnheard:
		return mirror.Unreachable
	}
	return mirror.Closed
}
