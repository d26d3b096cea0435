package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a leader learns of how long jobs run, and how it gets to disk: one
// record, written at most once in a while and only after something ended. An attempt's END
// is on disk before, with a note that goes with the record that knows of it (package
// store), so a next leader learns of exactly those that this one had not written down.
// What is learned orders work and foretells; it must never end anything.

// learning holds the Scheduler's state of learned durations.
type learning struct {
	cells   *estimate.Cells
	pools   estimate.Pools
	counted actors.Instant // when the pools were
	of      int            // machines in them

	news    []topology.Token // attempts that ended, and that no record on disk knows
	writing []topology.Token // those that the record knows which is on its way
	saving  bool             // one is
	next    *messages.PolicyRecord
	due     bool   // the next one is waited for
	moved   bool   // where GPU time goes has changed since it was written
	newer   []byte // of the record, what a newer leader wrote
}

func newLearning() learning { return learning{cells: estimate.NewCells()} }

type (
	// saveLearned ends the wait for the next record.
	saveLearned struct{}
	// learnedWrite is the tag of its write.
	learnedWrite struct{}
)

// learnsFrom reports whether an attempt that ended so had run for as long as its job runs.
// Of one that was cut short by others, or of which nobody knows for how long it ran, nothing
// is to be learned.
func learnsFrom(end *messages.End) bool {
	switch end.GetCause() {
	case messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_MEMBER_FAILED, messages.Cause_CAUSE_TIME_LIMIT,
		messages.Cause_CAUSE_CANCELLED:
		return end.RanMs > 0
	}
	return false
}

// traitsOf returns the traits of a job that predict how long it will run.
func traitsOf(rec *messages.JobRecord, pools estimate.Pools) estimate.Traits {
	gang := messages.GangOf(rec.Spec)
	pool := pools.Of(&gang)
	return estimate.Traits{
		Pool: pool.Name, Queue: rec.Spec.GetQueue(), Owner: rec.GetOwner().Known(), Name: rec.Spec.GetName(),
		Size: pool.SizeOf(&gang), Limit: int64(actors.Millis(rec.Spec.GetTimeLimitMs())),
	}
}

// poolsNow counts the machines again once in a while, and when there are more or fewer. What
// most of them have is not another thing from one minute to the next.
func (s *learner) poolsNow() estimate.Pools {
	l, fabric, now := &s.learning, s.view.Fabric(), s.p.Clock.Now()
	if l.of != fabric.Len() || now >= l.counted.Plus(s.p.Constants.LearnedEvery) {
		l.pools, l.counted, l.of = estimate.PoolsOf(fabric), now, fabric.Len()
	}
	return l.pools
}

// countIn counts an attempt that has passed its barrier as running.
func (s *learner) countIn(r *run) {
	r.counted = true
	s.learning.cells.Began(r.traits, int64(r.began))
}

// countOut counts it as running no longer. Without an end nobody knows how it ended: its job's actor had to be
// recreated in between.
func (s *learner) countOut(r *run, end *messages.End) {
	if r != nil && r.counted {
		r.counted = false
		// For as long as the END says, and not as it seems here: a next leader would learn that.
		ran := int64(actors.Millis(end.GetRanMs()))
		s.learning.cells.Ended(r.traits, int64(r.began), int64(r.began)+ran, learnsFrom(end))
	}
}

func (s *lookahead) onAttemptEnded(ctx actor.Context, m protocol.AttemptEnded) {
	ctx.Send(s.peers.Mirror, mirror.RunEnded{Token: m.Token, Cause: m.End.GetCause()})
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	s.remembers(func(p policy.Rememberer) { p.Ended(m.Job, int64(actors.Millis(m.End.RanMs))) })
	if protocol.IsInside(m.End) {
		s.noteOutranked(e, e.outranked.times+1)
	}
	r := e.run
	if r != nil && r.token != m.Token {
		r = nil
	}
	if r != nil && r.counted {
		s.countOut(r, m.End)
	} else { // it passed its barrier under an earlier leader
		s.learnLate(e.rec, m.End)
	}
	if r != nil {
		r.over = s.p.Clock.Now()
		s.foresee(e)
	}
	if m.End.RanMs > 0 {
		s.saveLater(ctx, m.Token)
	}
}

// hearEnd takes the end of a job's latest attempt from disk, where its actor broke before it could tell of it.
func (s *lookahead) hearEnd(ctx actor.Context, e *livingJob, attempts []*messages.AttemptRecord) {
	r := e.run
	if r == nil || r.over != 0 || r.ended {
		return // it has told, or whoever read the store when this leader began has
	}
	for _, a := range attempts {
		if a.End != nil && messages.FromToken(a.Token) == r.token {
			s.onAttemptEnded(ctx, protocol.AttemptEnded{Job: e.id, Token: r.token, End: a.End})
		}
	}
}

// learnLate learns from an attempt that nobody here saw begin.
func (s *learner) learnLate(rec *messages.JobRecord, end *messages.End) {
	if learnsFrom(end) {
		s.learning.cells.Learn(traitsOf(rec, s.poolsNow()), int64(actors.Millis(end.RanMs)))
	}
}

// recall goes on from what earlier leaders learned, and learns from what ended since they wrote it down.
func (s *lookahead) recall(ctx actor.Context, l actors.Loaded) {
	s.learning.cells.Recall(fromCells(l.Policy.GetCells()))
	s.learning.newer = messages.Newer(l.Policy)
	s.remembers(func(p policy.Rememberer) { p.Recall(fromCredits(l.Policy.GetCredits())) })
	var news []topology.Token
	for _, e := range l.Unlearned {
		s.learnLate(e.Job, e.Attempt.End)
		news = append(news, messages.FromToken(e.Attempt.Token))
	}
	s.saveLater(ctx, news...)
}

// saveLater sees to it that what ended is in a record on disk before long.
func (s *learner) saveLater(ctx actor.Context, news ...topology.Token) {
	l := &s.learning
	l.news = append(l.news, news...)
	if (len(l.news) > 0 || l.moved) && !l.due && !l.saving {
		l.due = true
		s.p.Clock.After(s.p.Constants.LearnedEvery, ctx.Self(), saveLearned{})
	}
}

// onGPUTimeMoved: where GPU time goes has changed.
func (s *learner) onGPUTimeMoved(ctx actor.Context) {
	s.learning.moved = true
	s.saveLater(ctx)
}

// onSaveLearned puts the next record together, and asks for what goes with it: a record that knew of the end of an
// attempt, and not that its work was lost, would have no next leader learn that.
func (s *shares) onSaveLearned(ctx actor.Context) {
	l := &s.learning
	l.due, l.saving, l.moved = false, true, false
	l.writing, l.news = l.news, nil
	s.lives++
	l.next = &messages.PolicyRecord{
		WrittenBy: &messages.Token{Epoch: s.p.Epoch, Counter: s.lives << 32},
		Cells:     toCells(l.cells.Known()),
		Credits:   s.credits(),
		Uses:      s.uses(),
	}
	l.next.ProtoReflect().SetUnknown(l.newer)
	ctx.Request(s.peers.Mirror, mirror.TakeGPUTime{})
}

// onGPUTimeTaken writes the record.
func (s *learner) onGPUTimeTaken(ctx actor.Context, m mirror.GPUTimeTaken) {
	l := &s.learning
	l.next.GpuTime = m.Time
	ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneDecisions, Tag: learnedWrite{},
		Change: actors.Change{Policy: l.next, Learned: l.writing}})
	l.next = nil
}

// onLearnedWritten: a next leader knows what this one knew when it wrote. A record that the store will not have is a
// bug, and no reason to try the same once more before something else is learned.
func (s *learner) onLearnedWritten(ctx actor.Context, m protocol.Written) {
	l := &s.learning
	l.saving = false
	if m.Verdict != actors.Done {
		s.p.Log.Warn("What was learned of how long jobs run was not written: the store refuses it")
		l.news = append(l.writing, l.news...)
		l.writing = nil
		return
	}
	l.writing = nil
	s.saveLater(ctx)
}

// credits are the planner's, if it goes by such.
func (s *shares) credits() (all []*messages.Credit) {
	s.remembers(func(p policy.Rememberer) {
		for _, c := range p.Credits() {
			all = append(all, &messages.Credit{Pool: c.Pool, MilliGpuSeconds: c.Amount})
		}
	})
	return all
}

func fromCredits(credits []*messages.Credit) (all []policy.Credit) {
	for _, c := range credits {
		all = append(all, policy.Credit{Pool: c.Pool, Amount: c.MilliGpuSeconds})
	}
	return all
}

func toCells(known []estimate.Cell) []*messages.Cell {
	cells := make([]*messages.Cell, len(known))
	for i := range known {
		k := &known[i]
		cells[i] = &messages.Cell{
			Level: messages.CellLevel(k.Level), Owner: k.Owner, Group: k.Group, Size: k.Size, LimitNs: k.Limit,
			Count: k.Count, Sum: k.Sum, Ended: k.Ended, Used: k.Used,
		}
	}
	return cells
}

func fromCells(cells []*messages.Cell) []estimate.Cell {
	known := make([]estimate.Cell, len(cells))
	for i, c := range cells {
		known[i] = estimate.Cell{
			CellKey: estimate.CellKey{Level: estimate.Level(c.Level), Owner: c.Owner, Group: c.Group, Size: c.Size,
				Limit: c.LimitNs},
			Count: c.Count, Sum: c.Sum, Ended: c.Ended, Used: c.Used,
		}
	}
	return known
}
