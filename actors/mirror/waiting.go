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

// This file owns the reasons of waiting jobs. The Scheduler sends a reason once for all jobs of a group, and the Mirror
// adds it to a job when the job is read. A changed reason causes one event per group, for watchers that ask for
// reasons. One event per job would be ten thousand events for ten thousand waiting jobs of one shape.

// waiting holds the known facts about the waiting groups.
type waiting struct {
	groups map[policy.GroupID]*waitingGroup
	turns  ordered[struct{}]             // of the jobs that have a group
	bursts map[uint64]*ordered[struct{}] // the same for each burst
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
	jobs   int // number of jobs shown as members
	answer explained

	never messages.Reason // why it does not fit on an idle cluster; the zero value: it fits
	judge actors.Instant  // time of the next search
}

// onWaitingShown stores new reasons and the members of groups.
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
	for _, g := range shown.Groups { // its last job may leave before another job joins
		w.groups[g.Group].jobs++
	}
	for _, j := range shown.Jobs {
		m.join(ctx, j)
	}
	for _, g := range shown.Groups { // groups whose jobs have all left meanwhile
		w.groups[g.Group].jobs--
		if w.groups[g.Group].jobs == 0 {
			delete(w.groups, g.Group)
		}
	}
}

// join puts a job into a group, and sends the event with its reason.
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

// enter puts a job into a group and into the order of the queue.
func (w *waiting) enter(s *shownJob, j policy.Joined) {
	w.groups[j.Group].jobs++ // first, because the job may leave the same group
	w.leave(s)
	s.group, s.turn, s.burst, s.lent = j.Group, j.Turn, j.Burst, j.Lent
	w.turns.put(string(j.Turn), struct{}{})
	if w.bursts[j.Burst] == nil {
		w.bursts[j.Burst] = &ordered[struct{}]{}
	}
	w.bursts[j.Burst].put(string(j.Turn), struct{}{})
}

// leave removes a job from its group, if it has one. The group ends with its last job.
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

// standing returns the position of a job in the queue.
func (w *waiting) standing(s *shownJob) policy.Standing {
	return policy.Standing{Ahead: w.turns.before(string(s.turn)), Waiting: w.turns.len()}
}

// onWaitsNoMore removes a job from its group and drops its start estimate. The Job actor reports the cause.
func (m *Mirror) onWaitsNoMore(n WaitsNoMore) {
	delete(m.starts.promises, n.Job)
	delete(m.starts.expected, n.Job)
	if s, ok := m.jobs.get(string(n.Job)); ok && s.group != 0 {
		m.waiting.leave(&s)
		m.jobs.put(string(n.Job), s)
	}
}

// reason returns the reason why the jobs of a group wait. It returns the zero value if the group is unknown.
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

// present returns the present status of a job, with the reason if the job waits.
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

// why returns the reason why a job waits, and the group that shares this reason. Group 0 means that the reason applies
// to this job only.
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
		return never, 0 // the group's reason describes the present free capacity only
	}
	why := m.waiting.reason(s.group)
	if failed := messages.FailedStart(s.JobStatus, ""); failed.Text != "" {
		return failed.With("now " + why.Why()), 0 // the other jobs of its group have not failed
	}
	return why, uint64(s.group)
}

// judgeAgain is how long the Mirror keeps the result that a gang does not fit on an idle cluster. Each search examines
// all nodes.
const judgeAgain = 2 * time.Second

// judgedMost limits the searches per judgeEvery. With 10,000 nodes, this costs a few percent of the time. Without the
// limit, a list of thousands of jobs with different shapes would block the Mirror for seconds. The other jobs get the
// last known result.
const (
	judgeEvery = 500 * time.Millisecond
	judgedMost = 64
)

// looks counts the searches of the present interval of judgeEvery.
type looks struct {
	until actors.Instant
	many  int
}

// may reports whether one more search may run now, and counts it. Half of the searches are for groups without a known
// result.
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

// infeasible returns why the jobs of a group can never start, even if all known nodes were idle and in service. It
// returns the zero value if they can.
func (m *Mirror) infeasible(g *waitingGroup) messages.Reason {
	tree, now := m.picture.tree, m.p.Clock.Now()
	if g == nil || tree.Len() == 0 || g.asked.Patient { // who prefers a level may start elsewhere later
		return messages.Reason{}
	}
	if now < g.judge || !m.waiting.looks.may(now, g.judge > 0) {
		return g.never
	}
	gang := g.asked.Gang
	gang.Avoid, gang.Closing = nil, nil // for this search only
	g.never, g.judge = messages.Reason{}, now.Plus(judgeAgain)
	if possible, why := topology.Feasible(tree, gang); !possible {
		g.never = messages.NeverReason(why)
	}
	return g.never
}

// tellGroups sends changed reasons of groups to the watchers that asked for reasons.
func (m *Mirror) tellGroups(ctx actor.Context, changed []policy.GroupID) {
	for i := range m.watch.watchers {
		if w := &m.watch.watchers[i]; w.asked.Jobs && w.asked.Reasons {
			m.tellReasons(ctx, changed, w.asked, w.pid)
		}
	}
}

// groupsAtOnce limits the reasons that one change sends to a watcher. If every job has its own shape, thousands of
// reasons change at once. A watcher that received all of them would fall behind and be dropped. A list of jobs shows
// all reasons.
const groupsAtOnce = 256

// tellReasons sends one watcher the reasons of groups that contain a job which it watches by ID. It ignores the
// watcher's other filters, because checking all jobs of a group for each watcher would be expensive. The watcher knows
// the groups of its jobs.
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

// anyOf reports whether one of these jobs waits in the group. An empty list matches every group.
func (m *Mirror) anyOf(ids []string, group policy.GroupID) bool {
	return len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool {
		s, ok := m.jobs.get(id)
		return ok && s.group == group
	})
}
