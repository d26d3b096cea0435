package scheduler

import (
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns when a job may be planned that named a time to begin. That is a time of day, so the wall clock of
// whoever leads decides it: the alternative, a duration that is counted down, would begin a night's job in the morning
// after the leader was down for the night. Until then the job is in nobody's queue, and its record needs no write when
// it begins. A clock that is reset is noticed within a minute, because nobody waits longer without another look.

// beginsTooLate is the answer to a job that is to begin when nobody can mean; nil: it may.
func (s *Scheduler) beginsTooLate(spec *messages.JobSpec) *messages.SubmitReply {
	if no := protocol.TooFarAhead("spec.begin_unix_ms", spec.BeginUnixMs, s.p.Clock.WallMs()); no != nil {
		return &messages.SubmitReply{Outcome: no}
	}
	return nil
}
