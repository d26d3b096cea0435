package job

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the requests to the tasks of an attempt to save a checkpoint before they are stopped. A request is a
// warning (warning.go) with a number: it uses the same messages and the same notice. The nodes return the
// acknowledgements with their answers to the warning. If all required ranks have acknowledged one step, the step and
// the end of the attempt are on disk in one write. If a rank is late, the attempt ends at the deadline as without a
// request.
//
// Requests are not written to disk. After a takeover, the Scheduler preempts again and the Job asks again, under a new
// number. Only the last acknowledged step, and the end that a user requested, are on disk in the record of the attempt.

// saving is the last request of the attempt.
type saving struct {
	request uint64 // 0: none
	state   messages.SaveState
	end     ending // when the tasks are stopped, or when the request has failed
	subject string
	then    *messages.End // the end of the attempt after the request; nil: the attempt continues
	by      bool          // it has its own end, and not a known end of the attempt
	stays   bool          // a user opened it for itself, so it stays open without an end
	askedAt int64
	ranks   map[int32]*messages.RankSaved
	step    int64
	problem string
	asks    uint64 // number of requests of this actor

	fresh *messages.Saved // to be written
	at    actors.Instant  // when the gang last acknowledged a checkpoint of this attempt; 0: never, or unknown
}

// begin drops the request of an earlier attempt.
func (s *saving) begin() { *s = saving{asks: s.asks} }

func (s *saving) open() bool { return s.state == messages.SaveState_SAVE_STATE_OPEN }

// askToSave opens a request. If one is open, it returns that one. The attempt ends with the given end after the
// request, or continues if the end is nil.
func (j *Job) askToSave(ctx actor.Context, cause messages.Cause, subject string, then *messages.End) uint64 {
	s := &j.saving
	if !s.open() {
		j.openRequest(ending{at: j.p.Clock.Now().Plus(j.rec.Spec.SaveGrace()), cause: cause}, subject)
		s.stays = then == nil
	} else if then == nil {
		return s.request
	}
	// A request before a known end now belongs to this end. It stays open if the known end is withdrawn, for example
	// because the time limit was raised.
	if s.by = true; then != nil {
		s.then, s.end.cause, s.end.of, s.subject = then, cause, int64(s.request), subject
	}
	j.warn(ctx)
	j.show(ctx)
	return s.request
}

// openRequest gives a request a number that no other request of the attempt has, whichever leader sent it.
func (j *Job) openRequest(end ending, subject string) {
	s := &j.saving
	asks := s.asks + 1
	*s = saving{
		asks: asks, request: j.p.Epoch<<32 | j.life&0xffff<<16 | asks&0xffff, state: messages.SaveState_SAVE_STATE_OPEN,
		end: end, subject: subject, askedAt: j.p.Clock.WallMs(), ranks: map[int32]*messages.RankSaved{}, fresh: s.fresh,
		at: s.at,
	}
	s.end.of = int64(s.request)
	j.p.Host.Count(CountAsked+askedBy(end.cause), 1)
}

// savesFirst reports whether the tasks can be asked to save before their attempt ends.
func (j *Job) savesFirst() bool {
	return j.warns() && j.rec.Spec.GetCheckpoint() != nil
}

// finishSaved ends the attempt after a checkpoint. It ends the attempt at once if the job gets no request.
func (j *Job) finishSaved(ctx actor.Context, cause messages.Cause, detail, subject string) {
	if !j.savesFirst() {
		j.finish(ctx, cause, detail, "")
		return
	}
	if j.saving.open() && j.saving.then != nil {
		return // the first cause counts
	}
	end := &messages.End{Cause: cause, Detail: detail, Rank: -1}
	if cause == messages.Cause_CAUSE_PREEMPTED {
		end.Preemption = j.preemption
	}
	j.askToSave(ctx, cause, subject, end)
}

// withdrawEnd lets an attempt continue that would have ended after its checkpoint.
func (j *Job) withdrawEnd(ctx actor.Context) {
	s := &j.saving
	s.then = nil
	if s.open() && s.by && !s.stays {
		j.close(messages.SaveState_SAVE_STATE_WITHDRAWN)
	}
	j.warn(ctx)
	j.show(ctx)
}

// noteSaved records the acknowledgements of the ranks on one node. An acknowledgement of another request counts for
// nothing, and neither does a step below the last acknowledged one.
func (j *Job) noteSaved(ctx actor.Context, node topology.NodeID, all []*messages.RankSaved) {
	s := &j.saving
	if !s.open() {
		return
	}
	news := false
	for _, r := range all {
		was := s.ranks[r.Rank]
		switch {
		case !j.placedAt(r.Rank, node) || r.Request != s.request:
			j.p.Host.Count(CountIgnored+"other_request", 1)
			continue
		case was.Same(r):
			continue
		case was.GetExited() && !r.Exited:
			r = actors.CopyOf(r)
			r.Exited = true
		}
		if n := len(r.Steps); n > 0 && r.Steps[n-1] < j.att.GetSaved().GetStep() {
			j.p.Host.Count(CountIgnored+"lower_step", 1)
		}
		s.ranks[r.Rank], news = r, true
		if s.problem == "" && r.Problem != "" {
			s.problem = r.Problem
		}
	}
	if news {
		j.look(ctx)
		j.show(ctx)
	}
}

// placedAt reports whether a rank of the attempt is on the node.
func (j *Job) placedAt(rank int32, node topology.NodeID) bool {
	if i := int(rank); i < len(j.att.Places) && j.att.Places[i].Rank == rank { // ranks are usually in order
		return j.att.Places[i].Node == string(node)
	}
	return slices.ContainsFunc(j.att.Places, func(p *messages.Place) bool {
		return p.Rank == rank && p.Node == string(node)
	})
}

// noteSavedExit records a rank that saved and exited, and returns its exit with a mark. Another exit is unchanged.
func (j *Job) noteSavedExit(token topology.Token, e *messages.Exit) *messages.Exit {
	s, spec := &j.saving, j.rec.Spec.GetCheckpoint()
	if j.att == nil || messages.FromToken(j.att.Token) != token || !spec.SavedBy(e) {
		return e
	}
	if !s.open() && (s.state != messages.SaveState_SAVE_STATE_SAVED || j.p.Clock.Now() >= s.end.at) {
		return e
	}
	e = actors.CopyOf(e)
	e.Saved = true
	r := &messages.RankSaved{Rank: e.Rank, Request: s.request}
	if was := s.ranks[e.Rank]; was != nil {
		r = actors.CopyOf(was)
	}
	r.Exited = true
	s.ranks[e.Rank] = r
	return e
}

// look ends the request if all required ranks have acknowledged the same step, or if its time is up.
func (j *Job) look(ctx actor.Context) {
	s := &j.saving
	if !s.open() || !j.warns() {
		return
	}
	step, done := j.commonStep()
	switch {
	case done:
		s.step = step
		j.close(messages.SaveState_SAVE_STATE_SAVED)
		s.at = j.p.Clock.Now()
		s.fresh = &messages.Saved{Step: step, Request: s.request, AtUnixMs: j.p.Clock.WallMs(), RanMs: j.ranMs(j.att)}
	case j.p.Clock.Now() >= s.end.at:
		j.close(messages.SaveState_SAVE_STATE_FAILED)
	default:
		return
	}
	j.show(ctx)
	then := s.then
	if s.then = nil; then != nil {
		j.endWith(ctx, actors.CopyOf(then)) // the record may hold the end as pending
	}
	j.advance(ctx)
	if then == nil && s.by {
		j.warn(ctx) // the notice is removed
	}
}

// commonStep returns the highest step that all required ranks have acknowledged, if there is one. A rank that exited
// without a step counts for every step. If no rank names a step, the step is 0. It is also 0 if a rank may have named
// its step to an earlier leader before it exited, because the others may have saved another step since.
func (j *Job) commonStep() (step int64, done bool) {
	spec := j.rec.Spec.GetCheckpoint()
	exits := spec.GetAck() == messages.SaveAck_SAVE_ACK_EXIT
	var common []int64
	named, unknown := false, false
	for _, p := range j.att.Places {
		if !spec.NeedsSaved(p.Rank) {
			continue
		}
		r := j.saving.ranks[p.Rank]
		if exits && p.Exit.GetSaved() && !r.GetExited() {
			unknown = true
			continue // it saved and exited under an earlier leader
		}
		if r == nil || exits && !r.Exited || !exits && len(r.Steps) == 0 {
			return 0, false
		}
		steps := slices.DeleteFunc(slices.Clone(r.Steps), func(n int64) bool { return n < j.att.GetSaved().GetStep() })
		switch {
		case len(r.Steps) == 0:
			unknown = unknown || j.ranBefore
		case !named:
			common, named = steps, true
		default:
			common = slices.DeleteFunc(common, func(n int64) bool { return !slices.Contains(steps, n) })
		}
	}
	if !named || unknown {
		return 0, true
	}
	if len(common) == 0 {
		return 0, false
	}
	return slices.Max(common), true
}

// lacksSaved reports whether an acknowledgement of the open request may come from the node. An answer can be lost, so
// the Job asks until the request is closed.
func (j *Job) lacksSaved(n topology.NodeID) bool {
	spec := j.rec.Spec.GetCheckpoint()
	return j.saving.open() && slices.ContainsFunc(j.att.Places, func(p *messages.Place) bool {
		return p.Node == string(n) && spec.NeedsSaved(p.Rank) && j.lives(p)
	})
}

// draftSaved adds the acknowledged step to the write, and the end that a user requested with a checkpoint. The next
// leader finds this end and asks again. It finds a preemption with the job that preempts.
func (j *Job) draftSaved(d *draft) {
	if then := j.saving.then; then.GetCause() == messages.Cause_CAUSE_REQUEUED && d.att.Pending == nil {
		d.att = d.att.Revise()
		d.att.Pending = then
		d.touch(d.att)
	}
	if fresh := j.saving.fresh; fresh != nil && d.att.Saved != fresh {
		d.att = d.att.Revise()
		d.att.Saved = fresh
		d.touch(d.att)
	}
}

// endOfSaved returns the end of an attempt whose tasks saved and exited. While other tasks are still to save, there is
// none.
func (j *Job) endOfSaved(end *messages.End) *messages.End {
	if end == nil || end.Cause != messages.Cause_CAUSE_REQUEUED {
		return end
	}
	if j.saving.open() && j.p.Clock.Now() < j.saving.end.at {
		return nil
	}
	switch cause := j.saving.end.cause; cause {
	case messages.Cause_CAUSE_TIME_LIMIT, messages.Cause_CAUSE_DRAINED:
		end.Cause = cause
	}
	return end
}

// savingShown returns the last request for users. It returns nil if there is none.
func (j *Job) savingShown() *messages.Saving {
	s := &j.saving
	if s.request == 0 {
		return nil
	}
	shown := &messages.Saving{
		Request: s.request, State: s.state, Cause: s.end.cause, Subject: s.subject, AskedUnixMs: s.askedAt,
		DeadlineUnixMs: j.p.Clock.WallMs() + s.end.at.Since(j.p.Clock.Now()).Milliseconds(), Step: s.step,
		Problem: s.problem,
	}
	for _, p := range j.att.Places {
		if r := s.ranks[p.Rank]; r != nil {
			shown.Ranks = append(shown.Ranks, r)
		}
	}
	return shown
}

// onCheckpoint opens a request by a user. The attempt continues.
func (j *Job) onCheckpoint(ctx actor.Context, m *messages.Checkpoint) {
	reply := &messages.CheckpointReply{Job: m.Job, Outcome: j.cannotSave("job")}
	if reply.Outcome == nil {
		reply.Outcome = messages.OK()
		reply.Request = j.askToSave(ctx, messages.Cause_CAUSE_UNSPECIFIED, m.Principal.GetName(), nil)
	}
	ctx.Respond(reply)
}

// cannotSave returns why the tasks cannot be asked to save now. It returns nil if they can.
func (j *Job) cannotSave(field string) *messages.Outcome {
	no := func(text, hint string) *messages.Outcome {
		return &messages.Outcome{Code: messages.Code_CODE_CONFLICT, Field: field, Text: text, Hint: hint}
	}
	switch {
	case j.rec.State.Terminal():
		return messages.AlreadyEnded(j.rec)
	case j.rec.Spec.GetCheckpoint() == nil:
		return noRequests(field)
	case !j.savesFirst():
		return no("job is not running", "try again when it runs")
	}
	return nil
}

// noRequests refuses a request about a job whose tasks get none.
func noRequests(field string) *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: field, Text: "job saves no checkpoint on request",
		Hint: "submit it with checkpoint: {signal: USR1, grace: 5m}, see docs/jobs/checkpoints.md",
	}
}
