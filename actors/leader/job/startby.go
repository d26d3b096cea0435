package job

import (
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns what a Job makes of the moment by which its attempt has passed its barrier, where it was lent room
// that
// is kept for another.

// startByLeftMs is what COMMIT says of how long an attempt has to pass its barrier.
func (j *Job) startByLeftMs() int64 {
	if j.startBy == 0 {
		return 0
	}
	return max(j.startBy.Since(j.p.Clock.Now()).Milliseconds(), 1)
}

// noteTooShort has the job lent room only for twice the time from now on, where an attempt came to nothing for lack of
// it.
func (j *Job) noteTooShort() {
	if j.startBy != 0 && j.p.Clock.Now() >= j.startBy {
		j.lent = max(j.lent, j.ready)
	}
}

// lentBefore is how long an attempt on disk had, where that was too short.
func lentBefore(a *messages.AttemptRecord) time.Duration {
	if a.GetEnd().GetCause() != messages.Cause_CAUSE_START_BY {
		return 0
	}
	return actors.Millis(a.StartByLeftMs)
}

// causeToldTo is the cause of a Stop as a machine's agent understands it.
func causeToldTo(s *contact, cause messages.Cause) messages.Cause {
	if cause == messages.Cause_CAUSE_UNWELL { // nothing here depends on which of the two it is
		return messages.Cause_CAUSE_MACHINE_LOST
	}
	if cause == messages.Cause_CAUSE_START_BY && s.vocabulary < messages.VocabularyStartBy {
		return messages.Cause_CAUSE_EXPIRED
	}
	return cause
}
