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

// This file owns the run-time statistics of a leader and how they reach the disk. They are one record, written at a
// minimum interval and only after an attempt has ended. An attempt's END is on disk earlier, with a note that the
// statistics record removes (package store). The next leader therefore learns from exactly the attempts that this one
// had not written. The statistics influence order and estimates. They must never end anything.

// learning holds the Scheduler's state of learned durations.
type learning struct {
	cells   *estimate.Cells
	pools   estimate.Pools
	counted actors.Instant // time of the last count of the pools
	of      int            // nodes in the pools

	news    []topology.Token // ended attempts that no record on disk includes
	writing []topology.Token // attempts in the record on its way to disk
	saving  bool             // a record is on its way to disk
	next    *messages.PolicyRecord
	due     bool   // the timer for the next record is set
	moved   bool   // GPU time, or a node's failures, have changed after the last record
	newer   []byte // fields of the record that a newer leader wrote
}

func newLearning() learning { return learning{cells: estimate.NewCells()} }

type (
	// saveLearned is the timer for the next record.
	saveLearned struct{}
	// learnedWrite is the tag of the record's write.
	learnedWrite struct{}
)

// learnsFrom reports whether an attempt with this end ran as long as its job needs. Nothing is learned from an attempt
// that was cut short or whose run time is unknown.
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

// poolsNow returns the pools of nodes. It counts them again at an interval and when the number of nodes changes. The
// typical node of a pool rarely changes.
func (s *learner) poolsNow() estimate.Pools {
	l, tree, now := &s.learning, s.view.Tree(), s.p.Clock.Now()
	if l.of != tree.Len() || now >= l.counted.Plus(s.p.Constants.LearnedEvery) {
		l.pools, l.counted, l.of = estimate.PoolsOf(tree), now, tree.Len()
	}
	return l.pools
}

// countIn counts an attempt that has passed its barrier as running.
func (s *learner) countIn(r *run) {
	r.counted = true
	s.learning.cells.Began(r.traits, int64(r.began))
}

// countOut ends the count of an attempt as running. Without an end, the result is unknown, because its job's actor was
// recreated.
func (s *learner) countOut(r *run, end *messages.End) {
	if r != nil && r.counted {
		r.counted = false
		// The run time comes from END, because the next leader would learn the same value.
		ran := int64(actors.Millis(end.GetRanMs()))
		s.learning.cells.Ended(r.traits, int64(r.began), int64(r.began)+ran, learnsFrom(end))
	}
}

func (s *lookahead) onAttemptEnded(ctx actor.Context, m protocol.AttemptEnded) {
	ctx.Send(s.peers.Mirror, mirror.RunEnded{
		Token: m.Token, Cause: m.End.GetCause(), SavedUnixMs: m.Saved.GetAtUnixMs(),
	})
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	if kept := m.End.GetHoldMs() > 0; !kept {
		s.remembers(func(p policy.Rememberer) { p.Ended(m.Job, int64(m.Before+actors.Millis(m.End.RanMs))) })
	}
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
	if r != nil && m.End.GetHoldMs() > 0 {
		r.kept = true
	} else if r != nil {
		r.over = s.p.Clock.Now()
		s.freeSpares(ctx, r)
		s.foresee(e)
	}
	if m.End.RanMs > 0 {
		s.saveLater(ctx, m.Token)
	}
}

// hearEnd reads the end of a job's latest attempt from disk if its actor failed before it could report the end.
func (s *lookahead) hearEnd(ctx actor.Context, e *livingJob, attempts []*messages.AttemptRecord) {
	r := e.run
	if r == nil || r.over != 0 || r.ended || r.kept {
		return // it was reported, or was read from the store at the takeover
	}
	for _, a := range attempts {
		if a.End != nil && messages.FromToken(a.Token) == r.token {
			s.onAttemptEnded(ctx, protocol.AttemptEnded{Job: e.id, Token: r.token, End: a.End, Saved: a.Saved})
		}
	}
}

// learnLate learns from an attempt whose start this leader did not see.
func (s *learner) learnLate(rec *messages.JobRecord, end *messages.End) {
	if learnsFrom(end) {
		s.learning.cells.Learn(traitsOf(rec, s.poolsNow()), int64(actors.Millis(end.RanMs)))
	}
}

// recall continues with the statistics of earlier leaders, and learns from the attempts that ended after the last
// record.
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

// saveLater schedules a record that includes the ended attempts.
func (s *learner) saveLater(ctx actor.Context, news ...topology.Token) {
	l := &s.learning
	l.news = append(l.news, news...)
	if (len(l.news) > 0 || l.moved) && !l.due && !l.saving {
		l.due = true
		s.p.Clock.After(s.p.Constants.LearnedEvery, ctx.Self(), saveLearned{})
	}
}

// onGPUTimeMoved schedules a record because GPU time has changed.
func (s *learner) onGPUTimeMoved(ctx actor.Context) {
	s.learning.moved = true
	s.saveLater(ctx)
}

// onSaveLearned builds the next record and requests the GPU time for it. A record that included an attempt's end but
// not its lost work would hide the loss from the next leader.
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

		NodeFailures: s.failuresOfNodes(),
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

// onLearnedWritten handles the result of the write. A record that the store refuses is a bug. It is not repeated before
// there is more to write.
func (s *learner) onLearnedWritten(ctx actor.Context, m protocol.Written) {
	l := &s.learning
	l.saving = false
	if m.Verdict != actors.Done {
		s.p.Log.Warn("The runtime statistics were not written: the store refused them")
		l.news = append(l.writing, l.news...)
		l.writing = nil
		return
	}
	l.writing = nil
	s.saveLater(ctx)
}

// credits returns the planner's credits, if it uses any.
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
