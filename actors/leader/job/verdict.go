package job

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
)

// This file owns the verdict on a failed attempt. The verdict is written with the end of the attempt. The exits of the
// other members arrive later and may change it until the attempt is closed. Later evidence may show that the user's
// failure was one of the infrastructure, but never the reverse.

// failedExits holds the failed exits of one attempt with their texts and times, which are not stored.
type failedExits struct {
	token topology.Token
	of    map[int32]notedExit
}

// note adds an exit, or corrects its time.
func (f *failedExits) note(t topology.Token, rank int32, e notedExit) {
	if f.token != t {
		*f = failedExits{t, map[int32]notedExit{}}
	}
	if !verdict.Succeeded(e.Exit) {
		f.of[rank] = e
	}
}

// failures returns the failed exits of an attempt. An exit that only the record has counts as late, because its time is
// unknown.
func (j *Job) failures(a *messages.AttemptRecord) (all []verdict.Failure) {
	known := j.failed.token == messages.FromToken(a.Token)
	for _, p := range a.Places {
		if p.Exit == nil || verdict.Succeeded(p.Exit) || p.Exit.Saved {
			continue
		}
		f := verdict.Failure{Rank: p.Rank, Node: p.Node, Exit: p.Exit, Ended: int64(j.p.Clock.Now())}
		if e, full := j.failed.of[p.Rank]; full && known {
			f.Exit, f.Ended = e.Exit, int64(e.ended)
		}
		all = append(all, f)
	}
	return all
}

// lostNodes returns the nodes that lack evidence of an attempt because they do not answer.
func (j *Job) lostNodes(a *messages.AttemptRecord) (all []verdict.Lost) {
	for _, p := range a.Places {
		s := j.contacts[topology.NodeID(p.Node)]
		if p.Exit == nil && !s.up && !slices.ContainsFunc(all, func(l verdict.Lost) bool { return l.Node == p.Node }) {
			all = append(all, verdict.Lost{Node: p.Node, Since: int64(s.since)})
		}
	}
	return all
}

func (j *Job) judge(a *messages.AttemptRecord, end *messages.End) *messages.Verdict {
	return verdict.Judge(verdict.Case{
		Attempt: a, End: end, Failures: j.failures(a), Lost: j.lostNodes(a), Last: j.rec.LastFailure,
	})
}

// judgeAgain returns the attempt with the verdict from all evidence, before the attempt is closed.
func (j *Job) judgeAgain(a *messages.AttemptRecord) *messages.AttemptRecord {
	before := a.Verdict
	if before == nil || a.End.Rank < 0 {
		return a
	}
	now := j.judge(a, a.End)
	known := j.failed.token == messages.FromToken(a.Token)
	moved := now.Rank != before.Rank || now.Class != before.Class
	if now.Charged && !before.Charged || !(before.Charged && !now.Charged || known && moved) {
		return a
	}
	next := a.Revise()
	next.Verdict = now
	return next
}

// charged reports whether the failure of a member counts against the job's restarts. It does if there is no verdict,
// because an earlier version wrote the end.
func charged(a *messages.AttemptRecord) bool {
	v := a.GetVerdict()
	return v == nil || v.Charged
}

// repeatsAtOnce reports whether the next attempt after a failure outside the job may begin at once, because it uses
// another node or device.
func repeatsAtOnce(a *messages.AttemptRecord) bool {
	switch a.GetVerdict().GetClass() {
	case messages.FailureClass_FAILURE_CLASS_NODE, messages.FailureClass_FAILURE_CLASS_GPU:
		return true
	}
	return false
}
