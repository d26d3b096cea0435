package mirror

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the Mirror shows of why a job waits. The Scheduler tells a
// reason once for all jobs of a group; it is joined to a job when it is read. A change of it is no event for each job,
// or ten thousand waiting jobs of one shape would be ten thousand events: it is one event, for watchers that ask for
// it.

// waiting holds the known facts about the waiting groups.
type waiting struct {
	groups map[policy.GroupID]*waitingGroup
	turns  ordered[struct{}]             // of the jobs that have a group
	bursts map[uint64]*ordered[struct{}] // likewise, of each burst
	aside  string
	idle   messages.Reason // why no job starts now
	looks  looks
}

func newWaiting() waiting {
	return waiting{groups: map[policy.GroupID]*waitingGroup{}, bursts: map[uint64]*ordered[struct{}]{}}
}

type waitingGroup struct {
	reason messages.Reason
	asked  policy.Question
	jobs   int // shown as its members
	answer explained

	never messages.Reason // why no idle cluster could hold it; the zero value: one could
	judge actors.Instant  // when that is looked at again
}

// onWaitingShown takes new reasons, and the jobs that they belong to.
func (m *Mirror) onWaitingShown(ctx actor.Context, shown WaitingShown) {
	w := &m.waiting
	aside := w.aside != shown.Aside
	w.aside = shown.Aside
	var changed []policy.GroupID
	for _, g := range shown.Groups {
		known := w.groups[g.Group]
		switch {
		case known == nil:
			w.groups[g.Group] = &waitingGroup{reason: g.Reason, asked: g.Asked}
		case known.reason != g.Reason:
			known.reason = g.Reason
			changed = append(changed, g.Group)
		}
	}
	if aside {
		changed = slices.Sorted(maps.Keys(w.groups))
	}
	m.tellGroups(ctx, changed)
	for _, g := range shown.Groups { // its last job may leave it here before another one joins it
		w.groups[g.Group].jobs++
	}
	for _, j := range shown.Jobs {
		m.join(ctx, j)
	}
	for _, g := range shown.Groups { // a group whose jobs have all gone on meanwhile
		w.groups[g.Group].jobs--
		if w.groups[g.Group].jobs == 0 {
			delete(w.groups, g.Group)
		}
	}
}

// join notes with which group a job waits, and tells why.
func (m *Mirror) join(ctx actor.Context, j policy.Joined) {
	id := string(j.Job)
	s, ok := m.jobs.get(id)
	if !ok || s.Phase != messages.PhaseQueued || m.waiting.groups[j.Group] == nil {
		return
	}
	m.waiting.enter(&s, j)
	if now := m.present(s); s.told.GetJob().GetReason() != now.Reason {
		s.told = m.tell(ctx, &messages.Event{Text: jobWords(now), Job: listed(now)})
	}
	m.jobs.put(id, s)
}

// enter notes with which group a job waits, and after which jobs.
func (w *waiting) enter(s *shownJob, j policy.Joined) {
	w.groups[j.Group].jobs++ // first, because it may leave the same group
	w.leave(s)
	s.group, s.turn, s.burst, s.lent = j.Group, j.Turn, j.Burst, j.Lent
	w.turns.put(string(j.Turn), struct{}{})
	if w.bursts[j.Burst] == nil {
		w.bursts[j.Burst] = &ordered[struct{}]{}
	}
	w.bursts[j.Burst].put(string(j.Turn), struct{}{})
}

// leave takes a job out of its group, if it has one; the group ends with its last job.
func (w *waiting) leave(s *shownJob) {
	g := w.groups[s.group]
	if g == nil {
		return
	}
	if g.jobs--; g.jobs == 0 {
		delete(w.groups, s.group)
	}
	w.turns.remove(string(s.turn))
	if b := w.bursts[s.burst]; b != nil {
		if b.remove(string(s.turn)); b.len() == 0 {
			delete(w.bursts, s.burst)
		}
	}
	s.group, s.turn, s.burst, s.lent = 0, "", 0, 0
}

// standing is where a job stands among those that wait.
func (w *waiting) standing(s *shownJob) policy.Standing {
	return policy.Standing{Ahead: w.turns.before(string(s.turn)), Waiting: w.turns.len()}
}

// onWaitsNoMore takes a job out of its group, with what is known of its start. Its own actor says what happened to it.
func (m *Mirror) onWaitsNoMore(n WaitsNoMore) {
	delete(m.starts.promises, n.Job)
	delete(m.starts.expected, n.Job)
	if s, ok := m.jobs.get(string(n.Job)); ok && s.group != 0 {
		m.waiting.leave(&s)
		m.jobs.put(string(n.Job), s)
	}
}

// reason is why the jobs of a group wait; the zero value if that is not known.
func (w *waiting) reason(group policy.GroupID) messages.Reason {
	g := w.groups[group]
	if g == nil {
		return messages.Reason{}
	}
	switch g.reason.Code {
	case messages.WaitResources, messages.WaitTopology, messages.WaitNodeSelector:
		return g.reason.With(w.aside)
	}
	return g.reason
}

// present is a job as it is now: with the reason why it waits, if it does.
func (m *Mirror) present(s shownJob) *messages.JobStatus {
	why, group := m.why(&s)
	if why.Text == s.Reason && s.group == 0 {
		return s.JobStatus
	}
	return &messages.JobStatus{
		Record: s.Record, Phase: s.Phase, Reason: why.Text, ReasonCode: why.Code.String(), Attempt: s.Attempt,
		Debts: s.Debts, Group: group,
	}
}

// why is why a job waits, and the group that shares the reason; 0: the reason is the job's alone.
func (m *Mirror) why(s *shownJob) (messages.Reason, uint64) {
	if s.Reason != "" || !messages.Waits(s.Phase) {
		return messages.Reason{Code: messages.WaitCodeOf(s.ReasonCode), Text: s.Reason}, uint64(s.group)
	}
	group := m.waiting.groups[s.group]
	if over := m.overLimit(s); over.Text != "" {
		return over, 0
	}
	if held := m.withheld(s); held.Text != "" {
		return held, 0
	}
	if group == nil {
		return m.whyIdle(s.JobStatus), uint64(s.group)
	}
	if never := m.infeasible(group); never.Text != "" {
		return never, 0 // the group's reason says what is free at the moment
	}
	why := m.waiting.reason(s.group)
	if failed := messages.FailedStart(s.JobStatus, ""); failed.Text != "" {
		return failed.With("now " + why.Why()), 0 // the others of its group have not failed
	}
	return why, uint64(s.group)
}

// judgeAgain is how long it stands that no idle cluster could hold a gang: each look costs a search over all nodes.
const judgeAgain = 2 * time.Second

// At most so many looks happen in so long, a few hundredths of the time with 10,000 nodes. Where each of thousands of
// jobs has a shape of its own, one list would otherwise hold up the Mirror for seconds; the others are told what was
// known of them before.
const (
	judgeEvery = 500 * time.Millisecond
	judgedMost = 64
)

// looks counts the looks of the present span of judgeEvery.
type looks struct {
	until actors.Instant
	many  int
}

// may reports whether there may be one more look now, and counts it. Half of the looks are for groups of which nothing
// is known yet.
func (l *looks) may(now actors.Instant, known bool) bool {
	if now >= l.until {
		*l = looks{until: now.Plus(judgeEvery)}
	}
	most := judgedMost
	if known {
		most /= 2
	}
	if l.many >= most {
		return false
	}
	l.many++
	return true
}

// infeasible is why the jobs of a group never start on the nodes that are known, were all of them idle and in service;
// the zero value: they may.
func (m *Mirror) infeasible(g *waitingGroup) messages.Reason {
	fabric, now := m.picture.fabric, m.p.Clock.Now()
	if g == nil || fabric.Len() == 0 {
		return messages.Reason{}
	}
	if now < g.judge || !m.waiting.looks.may(now, g.judge > 0) {
		return g.never
	}
	gang := g.asked.Gang
	gang.Avoid, gang.Closing = nil, nil // for a while only
	g.never, g.judge = messages.Reason{}, now.Plus(judgeAgain)
	if possible, why := topology.Feasible(fabric, gang); !possible {
		g.never = messages.NeverReason(why)
	}
	return g.never
}

// tellGroups tells those who asked for it that these groups wait for another reason.
func (m *Mirror) tellGroups(ctx actor.Context, changed []policy.GroupID) {
	for i := range m.watch.watchers {
		if w := &m.watch.watchers[i]; w.asked.Jobs && w.asked.Reasons {
			m.tellReasons(ctx, changed, w.asked, w.pid)
		}
	}
}

// groupsAtOnce bounds the reasons that one change of the view may send to a watcher. Where every job has a shape of its
// own, thousands of reasons change at once, and a watcher that received all of them would fall behind and be dropped; a
// list of the jobs shows them all.
const groupsAtOnce = 256

// tellReasons tells one watcher why groups wait, if they have jobs that it watches
// by name. Its other filters are not looked at: it knows its jobs' groups, and looking at all jobs of a group for each
// watcher would be expensive.
func (m *Mirror) tellReasons(ctx actor.Context, groups []policy.GroupID, q *messages.Watch, who *actor.PID) {
	told := 0
	for _, id := range groups {
		g := m.waiting.groups[id]
		if g == nil || g.jobs == 0 || !m.anyOf(q.Ids, id) {
			continue
		}
		if told++; told > groupsAtOnce {
			return
		}
		why := m.waiting.reason(id)
		noun := " jobs wait: "
		if g.jobs == 1 {
			noun = " job waits: "
		}
		ctx.Send(who, &messages.Event{
			Seq: m.watch.seq, AtUnixMs: m.p.Clock.WallMs(), Text: strconv.Itoa(g.jobs) + noun + why.Text,
			Group: uint64(id), Reason: why.Text, ReasonCode: why.Code.String(), GroupJobs: int32(min(g.jobs, 1<<30)),
		})
	}
}

// anyOf reports whether one of these jobs waits in the group; none named: any does.
func (m *Mirror) anyOf(ids []string, group policy.GroupID) bool {
	return len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool {
		s, ok := m.jobs.get(id)
		return ok && s.group == group
	})
}
