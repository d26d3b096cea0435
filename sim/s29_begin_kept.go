package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// beginKept is S29: nothing is committed before the begin time in the job's record, by the wall clock of the committing
// leader. The clock may jump between the decision and the write.
type beginKept struct{ rule }

func newBeginKept() *beginKept { return &beginKept{rule{"S29 begin-kept", on{Stored}}} }

func (c *beginKept) clauses() []clause {
	later := func(_ *World, page *jobPage) bool { return page.queued && page.record.BeginsUnixMs() > 0 }
	return []clause{{about: later, away: func(w *World, page *jobPage) string {
		return c.away(w.leading, page.record, w.engine.now)
	}}}
}

// away returns why a COMMIT is not judged: its job had begun by the wall clock of the decision, and has not by the
// present one.
func (*beginKept) away(h *schedulerHost, job *messages.JobRecord, decided instant) string {
	begin := job.BeginsUnixMs()
	if h != nil && h.jumped > 0 && decided.since(h.jumped) < time.Minute && begin > h.clock.wall(decided) &&
		begin <= WallBeganMs+(h.jumped.duration()+h.wallWas).Milliseconds() {
		return "the leader's clock jumped back a moment ago"
	}
	return ""
}

// Step checks each attempt that is stored.
func (c *beginKept) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil || c.away(s.proc.host, s.job, s.decided) != "" {
		return
	}
	for _, a := range s.committed() {
		if begin := s.job.BeginsUnixMs(); a.CommittedUnixMs < begin {
			c.violate(w, "job %s is committed as attempt %d, %d ms before its begin time",
				s.job.Id, a.Run, begin-a.CommittedUnixMs)
		}
	}
}
