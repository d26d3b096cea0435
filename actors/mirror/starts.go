package mirror

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the start estimates that readers see. A job has an estimate only while it is queued, not while it
// runs, is held or is cancelled.

// starts holds the last estimates from the Scheduler.
type starts struct {
	told     bool                               // the planner looks ahead
	order    []policy.Promise                   // in the planner's order
	promises map[topology.JobID]*policy.Promise // of jobs that still wait
	lines    map[uint64]*policy.InLine
	endless  map[topology.JobID]topology.NodeID
	learned  bool
	expected map[topology.JobID]actors.Instant // expected starts of jobs with reserved nodes
}

// Equal reports whether two updates hold the same estimates.
func (s *StartsShown) Equal(o *StartsShown) bool {
	same := func(a, b policy.Promise) bool {
		slots := slices.Equal(a.Where.Slots, b.Where.Slots)
		a.Where, b.Where = topology.Placement{}, topology.Placement{}
		return slots && a.Job == b.Job && a.At == b.At && a.Bound == b.Bound && a.Latest == b.Latest && a.By == b.By &&
			a.Until == b.Until && a.OnLoan == b.OnLoan &&
			a.Firm == b.Firm && a.Slips == b.Slips && a.Endless == b.Endless && a.Given == b.Given
	}
	return slices.EqualFunc(s.Promises, o.Promises, same) && slices.Equal(s.Lines, o.Lines) &&
		s.Learned == o.Learned && slices.Equal(s.Endless, o.Endless)
}

// onStartsShown replaces all start estimates.
func (m *Mirror) onStartsShown(shown StartsShown) {
	s, before := &m.starts, m.starts.expected
	*s = starts{
		learned: shown.Learned, expected: map[topology.JobID]actors.Instant{},
		told: true, order: shown.Promises, promises: map[topology.JobID]*policy.Promise{}, lines: map[uint64]*policy.InLine{},
		endless: map[topology.JobID]topology.NodeID{},
	}
	for i := range shown.Promises {
		p := &shown.Promises[i]
		s.promises[p.Job] = p
		s.expected[p.Job] = m.stillExpected(before, p)
	}
	for i := range shown.Lines {
		s.lines[shown.Lines[i].Burst] = &shown.Lines[i]
	}
	for _, x := range shown.Endless {
		s.endless[x.Job] = x.Node
	}
}

// stillExpected returns the expected start of a job. The planner plans an overdue start for the time of each pass. The
// earlier estimate therefore stays until a later one replaces it, so that users see the delay.
func (m *Mirror) stillExpected(before map[topology.JobID]actors.Instant, p *policy.Promise) actors.Instant {
	at, now := actors.Instant(p.At), m.p.Clock.Now()
	if was, known := before[p.Job]; known && was <= now && at <= now {
		return was
	}
	return at
}

// overLimit returns the limit that a job waits for. It returns the zero value if no limit blocks the job.
func (m *Mirror) overLimit(job *shownJob) messages.Reason {
	if line := m.starts.lines[job.burst]; line != nil && line.Over != "" && job.Phase == messages.PhaseQueued {
		return messages.WaitQueueLimit.Because(line.Limit)
	}
	return messages.Reason{}
}

// withheld returns the reason of a job that fits but may not start yet. Such a job waits for one domain of its
// preferred level, or it leaves nodes to shorter jobs. Any other job gets the zero value. Only the first job of a burst
// waits like this; the others wait behind it.
func (m *Mirror) withheld(job *shownJob) messages.Reason {
	line, others := m.starts.lines[job.burst], m.waiting.bursts[job.burst]
	if line == nil || others == nil || job.Phase != messages.PhaseQueued || others.before(string(job.turn)) > 0 {
		return messages.Reason{}
	}
	switch line.Why {
	case policy.Locality:
		return messages.WaitTopology.Because("prefers 1 " + line.Within + ", starts anywhere from " +
			messages.Moment(m.timeOfDay(line.Until), m.timeOfDay(0)))
	case policy.Headroom:
		return messages.WaitPriority.Because("leaves nodes to jobs shorter than a day")
	}
	return messages.Reason{}
}

// tellLimits sends events about jobs that start or stop waiting for a limit or for a closer placement. The usage of
// other jobs changes constantly and causes no event.
func (m *Mirror) tellLimits(ctx actor.Context, before map[uint64]*policy.InLine) {
	changed := map[uint64]bool{}
	for burst, line := range m.starts.lines { //order: a set
		was := before[burst]
		if was == nil {
			was = &policy.InLine{Why: policy.Withholdings}
		}
		if (line.Over != "") != (was.Over != "") || line.Why != was.Why {
			changed[burst] = true
		}
	}
	if len(changed) == 0 {
		return
	}
	var jobs []shownJob
	m.jobs.ascend("", func(_ string, s shownJob) bool {
		if changed[s.burst] && s.Phase == messages.PhaseQueued {
			jobs = append(jobs, s)
		}
		return len(jobs) < groupsAtOnce
	})
	for _, s := range jobs {
		now := m.present(s)
		s.told = m.tell(ctx, &messages.Event{Text: jobWords(now), Job: listed(now)})
		m.jobs.put(now.Record.Id, s)
	}
}

// timeOfDay converts an instant into the time of day. A past instant becomes the current time.
func (m *Mirror) timeOfDay(ns int64) int64 {
	return m.p.Clock.WallMs() + max(actors.Instant(ns).Since(m.p.Clock.Now()), 0).Milliseconds()
}

// dayOf converts an instant into the time of day. The instant may be in the past.
func (m *Mirror) dayOf(at actors.Instant) int64 {
	return m.p.Clock.WallMs() + at.Since(m.p.Clock.Now()).Milliseconds()
}

// keptNamed limits the number of reserved nodes that an estimate names.
const keptNamed = 256

// prospect returns the start estimate of a job. It returns nil for a job that is in no queue.
func (m *Mirror) prospect(s *shownJob) *messages.Prospect {
	if s.group == 0 || s.Phase != messages.PhaseQueued {
		return nil
	}
	if never := m.infeasible(m.waiting.groups[s.group]); never.Text != "" {
		return &messages.Prospect{Basis: messages.Basis_BASIS_NONE, Why: never.Text}
	}
	if p := m.starts.promises[topology.JobID(s.GetRecord().GetId())]; p != nil && p.At < topology.Never {
		return m.promised(p)
	}
	return m.unpromised(s)
}

// promised returns the start estimate of a job with reserved nodes.
func (m *Mirror) promised(p *policy.Promise) *messages.Prospect {
	at, expected := m.timeOfDay, m.starts.expected[p.Job]
	told := &messages.Prospect{
		Basis: messages.Basis_BASIS_LEARNED, AtUnixMs: m.dayOf(expected), Why: m.endlessWords(p.Endless, p.Given),
		Unlearned: !m.starts.learned,
	}
	switch {
	case p.Firm && p.Latest < topology.Never:
		told.Basis, told.Why = messages.Basis_BASIS_LIMITS, ""
		told.LatestUnixMs = m.dayOf(max(actors.Instant(p.Latest), expected))
		told.Unlearned = false
		told.OnLoan = p.OnLoan
	case p.By > max(p.At, int64(m.p.Clock.Now())): // otherwise the bound was wrong, or adds nothing to the expected time
		told.LikelyUnixMs = at(p.By)
	}
	if p.Until < topology.Never {
		told.KeptUntilUnixMs = at(p.Until)
	}
	for i, slot := range p.Where.Slots {
		if (i == 0 || slot.Node != p.Where.Slots[i-1].Node) && len(told.Kept) < keptNamed {
			told.Kept = append(told.Kept, string(slot.Node))
		}
	}
	return told
}

// unpromised returns the estimate of a job without reserved nodes: why no time is known, and the work ahead of the job.
func (m *Mirror) unpromised(s *shownJob) *messages.Prospect {
	told := &messages.Prospect{Basis: messages.Basis_BASIS_NONE}
	line, before := m.starts.lines[s.burst], 0
	if line != nil {
		before = m.waiting.bursts[s.burst].before(string(s.turn))
	}
	switch {
	case !m.starts.told:
		told.Why = "the order fifo plans no starts"
		told.Ahead = int32(m.waiting.standing(s).Ahead)
		return told
	case line == nil:
		told.Why = "the job is not planned yet"
		return told
	case line.Over != "":
		told.Why = line.Over
	case line.Why == policy.Headroom:
		told.Why = headroomWords
	case before == 0:
		told.Why = m.endlessWords(line.Endless, line.Given)
	default:
		told.Why = m.endlessWords(line.Endless, "")
	}
	told.Ahead = int32(line.Ahead + before)
	work := line.Work + int64(before)*line.Each // in thousandths of a GPU times seconds
	if !line.NoGPUs {
		told.AheadGpuSeconds = work / 1000
	}
	if line.Pace > 0 {
		told.AheadMs = work / line.Pace * 1000
	}
	return told
}

// headroomWords is the reason of a long job that leaves a part of the nodes to shorter jobs.
const headroomWords = "the job is expected to run for more than a day, and such jobs leave some nodes to shorter jobs"

// endlessWords returns a text that names the job without a time limit that prevents an estimate, and the job because
// of which reserved nodes were released (given). It returns the empty string if there is no such job.
func (m *Mirror) endlessWords(job, given topology.JobID) string {
	var words []string
	if node, known := m.starts.endless[job]; known {
		words = append(words, m.called(string(job), true)+" on "+string(node)+" has no time limit")
	}
	if given != "" {
		words = append(words, "its reservation was released, and the next one follows when "+m.called(string(given), true)+
			" has ended")
	}
	return strings.Join(words, "; ")
}

// withProspect adds the start estimate to the status of a queued job.
func (m *Mirror) withProspect(s shownJob, shown *messages.JobStatus) *messages.JobStatus {
	if told := m.prospect(&s); told != nil {
		shown.Prospect = told // the status of a queued job is made for this reader
	}
	return shown
}

// wayOut returns the time limit with which a job would start now. It returns nil if there is no such limit.
func (m *Mirror) wayOut(s *shownJob) *messages.Relaxation {
	g, line := m.waiting.groups[s.group], m.starts.lines[s.burst]
	if g == nil || line == nil || line.Over != "" || s.Phase != messages.PhaseQueued {
		return nil
	}
	standing := slices.DeleteFunc(slices.Clone(m.starts.order), func(p policy.Promise) bool {
		return m.starts.promises[p.Job] == nil
	})
	spec := s.GetRecord().GetSpec()
	who := policy.Borrower{
		Job: topology.JobID(s.GetRecord().GetId()), Limit: int64(actors.Millis(spec.GetTimeLimitMs())),
		Grace: int64(actors.GraceOf(spec, m.p.Constants)), Lent: s.lent,
	}
	heldBack := line.Why == policy.Headroom
	way, known := g.asked.WayOut(m.picture.tree, who, standing, heldBack, int64(m.p.Clock.Now()))
	if !known {
		return nil
	}
	r := &messages.Relaxation{
		Text: "with --time-limit " + topology.Span(int64(way.Limit)), TimeLimitMs: way.Limit.Milliseconds(),
	}
	for _, job := range way.Of {
		r.Before = append(r.Before, m.jobName(string(job)))
	}
	return r
}
