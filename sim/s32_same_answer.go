package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// sameAnswer is S32: the Mirror explains a waiting job as the Scheduler's own view would, with a delay of at most a
// moment. At rest the Mirror's copy agrees with the Scheduler's view in every node, holder and reserved amount.
type sameAnswer struct {
	rule
	asked map[string]unlike // by job: where the two answers differed
	scans int
}

// unlike holds the answer of the Scheduler, and how often in a row the Mirror has answered differently.
type unlike struct {
	mine  string
	times int
}

const (
	askEvery  = 15 // in looks at the world, because an answer is expensive
	differing = 3  // in consecutive looks, because one look may fall between two updates
)

func newSameAnswer() *sameAnswer {
	return &sameAnswer{rule: rule{"S32 same-answer", on{Scanned}}, asked: map[string]unlike{}}
}

// Step compares the answers about one waiting job after another. If they differ, it compares them again a moment later.
// If the Scheduler's answer is unchanged by then, the Mirror had enough time for the update.
func (c *sameAnswer) Step(w *World, _ *Event) {
	if w.opts.Planner != nil { // a baseline planner gives no reasons
		return
	}
	p := w.leader()
	if p == nil || p.leader == nil || p.mirror == nil || p.paused || !p.idleAt(actors.KindScheduler) ||
		!p.idleAt(actors.KindMirror) {
		clear(c.asked)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.asked)) {
		was := c.asked[id]
		mine, answer := c.ask(p, id)
		if was.times++; mine != was.mine || answer == mine {
			delete(c.asked, id)
			continue
		}
		if c.asked[id] = was; was.times == differing {
			c.violate(w, "why job %s waits: the Mirror answers %q, but for a while the Scheduler's view has been %q",
				id, answer, mine)
		}
	}
	if c.scans++; c.scans%askEvery != 0 || len(w.client.jobs) == 0 {
		return
	}
	for n := range w.client.jobs {
		id := w.client.jobs[(c.scans/askEvery*7+n)%len(w.client.jobs)].id
		if mine, answer := c.ask(p, id); mine != "" {
			if mine != answer {
				c.asked[id] = unlike{mine, 1}
			}
			w.count("asked-why", 1)
			return
		}
	}
}

// ask returns the facts of the Scheduler and of the Mirror. The first is empty if the job fits or does not wait.
func (c *sameAnswer) ask(p *process, id string) (mine, answer string) {
	if own, waits := p.leader.Explain(topology.JobID(id)); waits {
		others, _ := p.mirror.Explain(topology.JobID(id))
		return factsOf(own), factsOf(others)
	}
	return "", ""
}

// factsOf writes every fact of an answer.
func factsOf(a policy.Answer) string {
	var refusal topology.Refusal
	if a.Refusal != nil {
		refusal = *a.Refusal
	}
	var ends topology.Ending
	if a.Ends != nil {
		ends = *a.Ends
	}
	a.Refusal, a.Ends = nil, nil // pointers have no text of their own
	return fmt.Sprintf("%+v, ends %+v, %+v", refusal, ends, a)
}

// Quiet compares the views.
func (c *sameAnswer) Quiet(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil || p.mirror == nil {
		return // S14 reports this
	}
	mine, others := pictureOf(p.leader.Room()), pictureOf(p.mirror.Room())
	for _, id := range slices.Sorted(maps.Keys(mine)) {
		if mine[id] != others[id] {
			c.violate(w, "node %s differs: in the Scheduler's view %s, in the Mirror's %s", id, mine[id], others[id])
			return
		}
	}
	if len(mine) != len(others) {
		c.violate(w, "the Scheduler knows %d nodes, but the Mirror %d", len(mine), len(others))
	}
}

// pictureOf returns all that is known of each node.
func pictureOf(f *topology.Tree, holders func(topology.NodeID) []topology.Holder) map[topology.NodeID]string {
	all := map[topology.NodeID]string{}
	f.Walk(func(m topology.Machine, free topology.Capacity, why string) {
		text := fmt.Sprintf("%+v with %+v free, held by %+v, unschedulable %q", m, free, holders(m.ID), why)
		f.EachKept(m.ID, func(id topology.KeepID, amount topology.Resources) {
			text += fmt.Sprintf(", reserved for %s: %+v", id, amount)
		})
		all[m.ID] = text
	})
	return all
}

// idleAt reports whether no message waits for an actor that lasts as long as the process.
func (p *process) idleAt(kind actors.Kind) bool {
	return !slices.ContainsFunc(p.lasting, func(m *mailbox) bool { return m.kind == kind && m.user.len() > 0 })
}
