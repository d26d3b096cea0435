package mirror

import (
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the full explanation of why a job waits. The Mirror keeps its own topology tree, because an
// explanation examines every node about fifty times and must not delay the Scheduler. The tree is as old as the last
// update from the Scheduler. Jobs of one shape share an explanation until the next update.

// picture holds the free capacity of the last update from the Scheduler.
type picture struct {
	fabric  *topology.Fabric
	holders *topology.Holders
	told    uint64 // number of updates
	// promised holds the last explanations of jobs with reserved nodes.
	promised map[topology.JobID]*explained
}

// explained holds the last explanation of missing capacity for a group or a single job, and the update that it belongs
// to.
type explained struct {
	topology.Explanation
	told uint64
}

func newPicture(levels []string) picture {
	return picture{
		fabric: topology.NewFabric(levels), holders: topology.NewHolders(), promised: map[topology.JobID]*explained{},
	}
}

// follow applies an update.
func (p *picture) follow(r RoomsShown) {
	p.told++
	p.fabric.Follow(r.Changes)
	clear(p.promised)
	for i, who := range r.Holders {
		if m := &r.Machines[i]; m.Machine != nil {
			p.holders.Set(m.ID, who)
		} else { // jobs on a removed node free no capacity when they end
			p.holders.Set(m.ID, nil)
		}
	}
}

// aside answers a query on a low-priority thread, if there is one, so that no scheduling pass is delayed.
func (m *Mirror) aside(q *messages.ExplainJob) (reply *messages.ExplainJobReply) {
	if m.p.Aside == nil {
		return m.onExplainJob(q)
	}
	m.p.Aside(func() { reply = m.onExplainJob(q) })
	return reply
}

// onExplainJob returns the state of a job and the reason for it.
func (m *Mirror) onExplainJob(q *messages.ExplainJob) *messages.ExplainJobReply {
	if q.Spec != nil {
		return &messages.ExplainJobReply{Outcome: messages.OK(), Text: m.supposed(q.Principal, q.Spec)}
	}
	status, outcome := m.find(q.Job)
	if status == nil {
		return &messages.ExplainJobReply{Outcome: outcome}
	}
	s, ok := m.jobs.get(status.GetRecord().GetId())
	if !ok { // an array element that is not a job
		return &messages.ExplainJobReply{Outcome: outcome, Text: messages.Explain(status)}
	}
	text, more := m.roomWords(&s), m.startWords(&s)
	if g := m.waiting.groups[s.group]; g != nil && g.answer.Never { // a job that can never start has no start time
		return &messages.ExplainJobReply{Outcome: outcome, Text: messages.Infeasible + text}
	}
	switch over := m.starts.over(&s); {
	case over != "" && text != "":
		text, more = over+" · besides, it "+text, ""
	case over != "":
		text, more = over, ""
	}
	if text == "" {
		text = messages.Explain(status)
	} else if more == "" { // else the start estimate includes the position in the queue
		more = m.waiting.standing(&s).String()
	}
	if failed := messages.StartFailure(s.JobStatus); failed != "" && !strings.Contains(text, failed) {
		text = "its last try failed (" + failed + ") · now it " + text
	}
	return &messages.ExplainJobReply{Outcome: outcome, Text: text + m.shareWords(&s) + m.wayOutWords(&s) + more}
}

// shareWords returns the queue's usage relative to its guaranteed share. It returns the empty string if the job does
// not wait in a queue with a share.
func (m *Mirror) shareWords(s *shownJob) string {
	if line := m.starts.lines[s.burst]; line != nil && line.Share != "" && s.Phase == messages.PhaseQueued {
		return " · " + line.Share
	}
	return ""
}

// roomWords returns why capacity is missing for a job. It returns the empty string if the job fits or is in no queue.
func (m *Mirror) roomWords(s *shownJob) string {
	if g := m.waiting.groups[s.group]; g != nil {
		return m.picture.explain(g, topology.JobID(s.GetRecord().GetId()), m.p.Clock.Now())
	}
	return ""
}

// explain returns why capacity is missing for a job. It returns the empty string if the job fits by now; the job then
// starts in the next pass.
func (p *picture) explain(g *waitingGroup, job topology.JobID, now actors.Instant) string {
	e := p.explanation(g, job)
	if e.Refusal == nil {
		return ""
	}
	e.NowNs, e.For = int64(now), job
	return e.String()
}

// explanation returns the shared explanation of a group. A job with reserved nodes gets its own explanation, because it
// does not apply to the other jobs.
func (p *picture) explanation(g *waitingGroup, job topology.JobID) *topology.Explanation {
	a := &g.answer
	if p.fabric.Keeps(job) {
		if p.promised[job] == nil {
			p.promised[job] = &explained{}
		}
		a = p.promised[job]
	}
	if a.told != p.told {
		a.told = p.told
		a.Explanation = g.asked.Explain(p.fabric, job, p.holders)
	}
	return &a.Explanation
}

// Explain returns why a job waits, without its start estimate. It returns false if the job is in no known queue. Only
// checks call it, never another actor.
func (m *Mirror) Explain(job topology.JobID) (string, bool) {
	s, _ := m.jobs.get(string(job))
	if text := m.roomWords(&s); text != "" {
		return text + m.waiting.standing(&s).String(), true
	}
	return messages.Explain(m.present(s)), s.group != 0
}

// Room returns the Mirror's topology tree. Checks compare it with the Scheduler's tree.
func (m *Mirror) Room() (*topology.Fabric, func(topology.NodeID) []topology.Holder) {
	return m.picture.fabric, m.picture.holders.On
}
