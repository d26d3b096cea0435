package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// allAdmitted is L5: once arrivals stop, every feasible gang is admitted. The run itself waits until every job has
// finished (settle in run.go), or reports which job waits for what.
//
// This checker covers the other half: a job does not end because of the cluster, whether or not it has run. It may end
// for these reasons only:
// - It succeeds, a client cancels it, or its time limit is reached.
// - The job that it follows has ended otherwise than required.
// - It fails by itself more often than it allows.
// - It allows no second attempt, and an attempt that may have run has ended.
// - Every node would reject it.
// - It could not be prepared or launched as often as is tried, and on two nodes or on the only one that fits.
// - It failed by no fault of its own as often as is tried.
type allAdmitted struct{ rule }

func newAllAdmitted() *allAdmitted { return &allAdmitted{rule: rule{"L5 all-admitted", on{Stored}}} }

// Step judges a job when its end is written, by its attempts in the store.
func (c *allAdmitted) Step(w *World, e *Event) {
	s := e.Stored
	if s.job.GetSpec().GetArray() != nil {
		return // it ended as its elements did (S36)
	}
	if s.job == nil || !s.job.State.Terminal() || s.jobWas != nil && s.jobWas.State.Terminal() {
		return
	}
	if n := endsOf(w, s); !n.explain(w, s.job) {
		c.violate(w, "%s ended as %v, after %d failures where it allows %d, %d tries to prepare it on %v "+
			"and %d others, the last by %v: %s", s.job.Id, s.job.State, n.failed, s.job.Spec.GetRestart().GetLimit(),
			n.unprepared, n.on, n.others, n.last.GetEnd().GetCause(), s.job.Outcome)
	}
}

// ends counts the ends of a job's attempts, by the limit that they count against.
type ends struct {
	last       *messages.AttemptRecord
	succeeded  bool     // one attempt succeeded, though that may have been known late
	failed     int32    // ended by a failed member
	unprepared int      // prepare failures since a gang of the job last ran
	on         []string // nodes of these failures; two are enough to know
	others     int      // ends by no fault of the job, including earlier ones
}

// endsOf counts the attempts of a job up to the write that ends it.
func endsOf(w *World, s *stored) (n ends) {
	for _, t := range s.page.tokens {
		a := w.books.attempts[t]
		for _, now := range s.attempts {
			if messages.FromToken(now.Token) == t {
				a = now
			}
		}
		n.add(a)
	}
	return n
}

func (n *ends) add(a *messages.AttemptRecord) {
	n.last = a
	n.succeeded = n.succeeded || a.GetEnd().GetCause() == messages.Cause_CAUSE_SUCCEEDED || didSucceed(a)
	cause, machinePays := a.GetEnd().GetCause(), slices.ContainsFunc(a.GetPlaces(), func(p *messages.Place) bool {
		return p.Rank == a.GetEnd().GetRank() && p.Exit.GetFault() == messages.Fault_FAULT_MACHINE
	})
	if a.GetStartedUnixMs() > 0 && (cause != messages.Cause_CAUSE_LAUNCH_FAILED || machinePays) {
		n.unprepared, n.on = 0, nil
	}
	switch cause {
	case messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_TIME_LIMIT,
		messages.Cause_CAUSE_REQUEUED, messages.Cause_CAUSE_START_BY, messages.Cause_CAUSE_UNWELL,
		messages.Cause_CAUSE_PREEMPTED:
	case messages.Cause_CAUSE_MEMBER_FAILED:
		if chargedTo(a) {
			n.failed++
		} else {
			n.others++
		}
	case messages.Cause_CAUSE_PREPARE_FAILED, messages.Cause_CAUSE_PREPARE_TIMEOUT, messages.Cause_CAUSE_LAUNCH_FAILED:
		n.others++
		if cause == messages.Cause_CAUSE_LAUNCH_FAILED && machinePays {
			break
		}
		n.unprepared++
		for _, p := range a.Places {
			kind := p.Exit.GetKind()
			failed := kind == messages.ExitKind_EXIT_KIND_PREPARE_FAILED || kind == messages.ExitKind_EXIT_KIND_LAUNCH_FAILED ||
				p.Node == a.End.Node
			if failed && !slices.Contains(n.on, p.Node) {
				n.on = append(n.on, p.Node)
			}
		}
	default:
		n.others++
	}
}

// didSucceed reports whether every member exited with 0 before it was stopped.
func didSucceed(a *messages.AttemptRecord) bool {
	return a != nil && !slices.ContainsFunc(a.Places, func(p *messages.Place) bool {
		return p.Exit.GetKind() != messages.ExitKind_EXIT_KIND_EXITED || p.Exit.Code != 0 || !p.Exit.ByItself
	})
}

// explain reports whether a job could end as it did.
func (n *ends) explain(w *World, job *messages.JobRecord) bool {
	cause := n.last.GetEnd().GetCause()
	switch job.State {
	case messages.JobState_JOB_STATE_SUCCEEDED:
		return n.succeeded
	case messages.JobState_JOB_STATE_CANCELLED:
		return job.Cancel != nil || job.NeverMet() != "" || messages.MissedDeadline(job.State, job.Cancel, job.Outcome)
	case messages.JobState_JOB_STATE_TIMED_OUT:
		return cause == messages.Cause_CAUSE_TIME_LIMIT
	}
	blamed := func(p *messages.Place) bool { return p.Exit.GetFault() == messages.Fault_FAULT_JOB }
	return job.Spec.GetRestart().GetNever() && n.last.MayHaveRun() ||
		n.failed > job.Spec.GetRestart().GetLimit() || n.others > w.constants.InfraRestarts ||
		n.last != nil && slices.ContainsFunc(n.last.Places, blamed) ||
		n.unprepared >= w.constants.PrepareFailures && (len(n.on) > 1 || !w.feasibleWithout(job.Spec, n.on))
}
