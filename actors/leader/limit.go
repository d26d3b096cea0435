package leader

import (
	"cmp"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the time limit of a job that names none, where the cluster has a default. As with its memory it is
// given with the submit and stands in the job's record, so that it is shown and kept as if it had been asked for,
// whatever the setting is later. Who wants none takes it away afterwards.

// limited is a spec with its time limit; one that names its own is answered as it is. It fails where the spec has no
// room for it.
func (s *Scheduler) limited(spec *messages.JobSpec) (*messages.JobSpec, *messages.SubmitReply) {
	limit := s.p.Settings.DefaultLimit
	if limit == 0 || spec.TimeLimitMs > 0 {
		return spec, nil
	}
	with := actors.CopyOf(spec)
	with.TimeLimitMs = limit.Milliseconds()
	if err := cmp.Or(with.Validate(), with.WarnsInTime()); err != nil { // it is longer by a few bytes
		return nil, submitReply("", messages.Code_CODE_INVALID, "spec", "with the time limit that it does not ask for: "+
			err.Error(),
			"ask for a time limit")
	}
	return with, nil
}
