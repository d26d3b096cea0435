package scheduler

import (
	"cmp"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the time limit of a job that names none, where its queue or the cluster has a default. As with its
// memory it is given with the submit and stands in the job's record, so that it is shown and kept as if it had been
// asked for, whatever the setting is later. Who wants none takes it away afterwards.

// limited is a spec with its time limit; one that names its own is answered as it is. It fails where the spec has no
// room for it, and where it is longer than the queue allows. Where the queue has no default but a most, it gets that.
func (s *Scheduler) limited(spec *messages.JobSpec, t *messages.QueueTerms) (*messages.JobSpec, *messages.SubmitReply) {
	if spec.TimeLimitMs > 0 {
		no := limitAbove(t, spec.TimeLimitMs)
		if no == nil {
			return spec, nil
		}
		no.Field = "spec.time_limit_ms"
		return nil, &messages.SubmitReply{Outcome: no}
	}
	limitMs := s.p.Settings.DefaultLimit.Milliseconds()
	if t.DefaultLimitMs != nil {
		limitMs = *t.DefaultLimitMs
	}
	if t.MostLimitMs > 0 && (limitMs == 0 || limitMs > t.MostLimitMs) {
		limitMs = t.MostLimitMs
	}
	if limitMs == 0 {
		return spec, nil
	}
	with := actors.CopyOf(spec)
	with.TimeLimitMs = limitMs
	if err := cmp.Or(with.Validate(), with.WarnsInTime()); err != nil { // it is longer by a few bytes
		return nil, submitReply("", messages.Code_CODE_INVALID, "spec", "with the time limit that it does not ask for: "+
			err.Error(),
			"ask for a time limit")
	}
	return with, nil
}
