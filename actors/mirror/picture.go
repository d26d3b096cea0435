package mirror

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the full explanation of why a job waits. The Mirror keeps its own topology tree, because an
// explanation examines every node about fifty times and must not delay the Scheduler. The tree is as old as the last
// update from the Scheduler. Jobs of one shape share an explanation until the next update.

// picture holds the free capacity of the last update from the Scheduler.
type picture struct {
	tree    *topology.Tree
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
		tree: topology.NewTree(levels), holders: topology.NewHolders(), promised: map[topology.JobID]*explained{},
	}
}

// follow applies an update.
func (p *picture) follow(r RoomsShown) {
	p.told++
	p.tree.Follow(r.Changes)
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

// explanation returns the shared explanation of a group. A job with reserved nodes gets its own explanation, because it
// does not apply to the other jobs.
func (p *picture) explanation(g *waitingGroup, job topology.JobID) *topology.Explanation {
	a := &g.answer
	if p.tree.Keeps(job) {
		if p.promised[job] == nil {
			p.promised[job] = &explained{}
		}
		a = p.promised[job]
	}
	if a.told != p.told {
		a.told = p.told
		a.Explanation = g.asked.Explain(p.tree, job, p.holders)
	}
	return &a.Explanation
}

// Explain returns the Mirror's facts about why a job waits, without its start. It returns false if the job fits, or if
// the job is in no queue. Only checks of these facts call it.
func (m *Mirror) Explain(job topology.JobID) (policy.Answer, bool) {
	s, _ := m.jobs.get(string(job))
	g := m.waiting.groups[s.group]
	if g == nil {
		return policy.Answer{}, false
	}
	a := policy.Answer{Explanation: *m.picture.explanation(g, job), Standing: m.waiting.standing(&s)}
	return a, a.Refusal != nil
}

// Room returns the Mirror's topology tree. Checks compare it with the Scheduler's tree.
func (m *Mirror) Room() (*topology.Tree, func(topology.NodeID) []topology.Holder) {
	return m.picture.tree, m.picture.holders.On
}
