package mirror

import (
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns why a job waits, in full. The Mirror keeps a fabric of its own from what the Scheduler tells it,
// because an answer looks at every machine some fifty times, and the Scheduler has gangs to start. It is as old as the
// last update. Jobs of one shape share an answer until the next update.

// picture is the room as the Scheduler last told of it.
type picture struct {
	fabric  *topology.Fabric
	holders *topology.Holders
	told    uint64 // counts updates
	// promised are the last answers to jobs for which room is kept.
	promised map[topology.JobID]*explained
}

// explained keeps the last answer to a group's jobs, or to one, about the room, and the update that it is of.
type explained struct {
	topology.Explanation
	told uint64
}

func newPicture(levels []string) picture {
	return picture{
		fabric: topology.NewFabric(levels), holders: topology.NewHolders(), promised: map[topology.JobID]*explained{},
	}
}

// follow applies what has changed.
func (p *picture) follow(r RoomsShown) {
	p.told++
	p.fabric.Follow(r.Changes)
	clear(p.promised)
	for i, who := range r.Holders {
		if m := &r.Machines[i]; m.Machine != nil {
			p.holders.Set(m.ID, who)
		} else { // whoever is still there frees nothing by ending
			p.holders.Set(m.ID, nil)
		}
	}
}

// aside answers where that is in no pass's way.
func (m *Mirror) aside(q *messages.ExplainJob) (reply *messages.ExplainJobReply) {
	if m.p.Aside == nil {
		return m.onExplainJob(q)
	}
	m.p.Aside(func() { reply = m.onExplainJob(q) })
	return reply
}

// onExplainJob says where a job stands, and why.
func (m *Mirror) onExplainJob(q *messages.ExplainJob) *messages.ExplainJobReply {
	if q.Spec != nil {
		return &messages.ExplainJobReply{Outcome: messages.OK(), Text: m.supposed(q.Principal, q.Spec)}
	}
	status, outcome := m.find(q.Job)
	if status == nil {
		return &messages.ExplainJobReply{Outcome: outcome}
	}
	s, ok := m.jobs.get(status.GetRecord().GetId())
	if !ok { // an element of an array that is no job
		return &messages.ExplainJobReply{Outcome: outcome, Text: messages.Explain(status)}
	}
	text, more := m.roomWords(&s), m.startWords(&s)
	if g := m.waiting.groups[s.group]; g != nil && g.answer.Never { // nothing is said of when either
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
	} else if more == "" { // else its place is told with that, by the order that holds
		more = m.waiting.standing(&s).String()
	}
	if failed := messages.StartFailure(s.JobStatus); failed != "" && !strings.Contains(text, failed) {
		text = "its last try failed (" + failed + ") · now it " + text
	}
	return &messages.ExplainJobReply{Outcome: outcome, Text: text + m.shareWords(&s) + m.wayOutWords(&s) + more}
}

// shareWords say how a job's queue stands to what it is assured; empty: nothing is.
func (m *Mirror) shareWords(s *shownJob) string {
	if line := m.starts.lines[s.burst]; line != nil && line.Share != "" && s.Phase == messages.PhaseQueued {
		return " · " + line.Share
	}
	return ""
}

// roomWords say why there is no room for a job; empty where there is room, or the job is in no queue.
func (m *Mirror) roomWords(s *shownJob) string {
	if g := m.waiting.groups[s.group]; g != nil {
		return m.picture.explain(g, topology.JobID(s.GetRecord().GetId()), m.p.Clock.Now())
	}
	return ""
}

// explain is the answer to a job about the room; empty where there is room, because then it starts in the next pass, or
// where there was none yet when it was last refused.
func (p *picture) explain(g *waitingGroup, job topology.JobID, now actors.Instant) string {
	e := p.explanation(g, job)
	if e.Refusal == nil {
		return ""
	}
	e.NowNs, e.For = int64(now), job
	return e.String()
}

// explanation is a group's answer, or that of one for whom room is kept: what that is told is of no use to the others.
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

// Explain is the Mirror's answer to why a job waits, without when it starts; false where it knows no queue with the
// job. It is for checks of that answer, and never for another actor.
func (m *Mirror) Explain(job topology.JobID) (string, bool) {
	s, _ := m.jobs.get(string(job))
	if text := m.roomWords(&s); text != "" {
		return text + m.waiting.standing(&s).String(), true
	}
	return messages.Explain(m.present(s)), s.group != 0
}

// Room returns the tree that the Mirror answers from. Checks compare it with the Scheduler's.
func (m *Mirror) Room() (*topology.Fabric, func(topology.NodeID) []topology.Holder) {
	return m.picture.fabric, m.picture.holders.On
}
