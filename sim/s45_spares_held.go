package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// sparesHeld is S45: a gang has its spares until its end, and no other job gets their capacity. An attempt from the
// queue has all the spares that its job requests: each on a separate node without a task of the job, and in the domain
// that the gang requires. A restart in place has the spares of the attempt before, except those that replaced nodes.
// The checker adds up the records, because the nodes know nothing of spares.
type sparesHeld struct{ rule }

func newSparesHeld() *sparesHeld { return &sparesHeld{rule{"S45 spares-held", on{Stored}}} }

func (c *sparesHeld) Step(w *World, e *Event) {
	for _, a := range e.Stored.committed() {
		if page := w.books.jobs[a.Job]; page != nil {
			c.complete(w, page.record.Spec, a)
			c.unused(w, page.record.Spec, a)
		}
	}
}

// complete checks the spares of a new attempt.
func (c *sparesHeld) complete(w *World, spec *messages.JobSpec, a *messages.AttemptRecord) {
	want := int(spec.GetRestart().GetSpares())
	if a.Inherited == nil && len(a.Spares) != want || len(a.Spares) > want {
		c.violate(w, "job %s: its attempt has the spares %v, requested were %d", a.Job, a.Spares, want)
	}
	w.count("spares", int64(len(a.Spares)))
	level := spec.GetTopology().GetRequired()
	for i, s := range a.Spares {
		twice := slices.ContainsFunc(a.Spares[:i], func(o *messages.Spare) bool { return o.Node == s.Node })
		task := slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Node == s.Node })
		far := level != "" && w.placeOf(s.Node, level) != w.placeOf(a.Places[0].Node, level)
		if twice || task || far {
			c.violate(w, "job %s: spare %s is a spare twice: %v, has a task: %v, is outside the %s: %v", a.Job, s.Node,
				twice, task, level, far)
		}
	}
	if a.Inherited == nil {
		return
	}
	was := w.books.attempts[messages.FromToken(a.Inherited.From)]
	left := 0
	for _, s := range was.GetSpares() {
		has := slices.ContainsFunc(a.Spares, func(o *messages.Spare) bool { return o.Node == s.Node })
		used := slices.ContainsFunc(a.Inherited.Swapped, func(o *messages.Swapped) bool { return o.By == s.Node })
		if has {
			left++
		}
		if has == used {
			c.violate(w, "job %s: spare %s replaced a node: %v, is still a spare: %v", a.Job, s.Node, used, has)
		}
		if used {
			w.count("spares.used", 1)
		}
	}
	if was != nil && left != len(a.Spares) {
		c.violate(w, "job %s: it restarts in place with the spares %v after %v", a.Job, a.Spares, was.Spares)
	}
}

// unused checks that the new places of an attempt use no capacity of spares, and that its own spares are free.
func (c *sparesHeld) unused(w *World, spec *messages.JobSpec, a *messages.AttemptRecord) {
	for i, p := range a.Places {
		if isNewOn(a, p.Node) && (i == 0 || a.Places[i-1].Node != p.Node) {
			c.fits(w, a, p.Node, amountOn(a, p.Node))
		}
	}
	if a.Inherited == nil {
		for _, s := range a.Spares {
			c.fits(w, a, s.Node, messages.FromResources(spec.Each))
		}
	}
}

// fits checks that a node has as much as an attempt, the other attempts and the spares of other jobs hold there. Of an
// attempt that has ended, the node may have freed the resources before the store has its exits.
func (c *sparesHeld) fits(w *World, a *messages.AttemptRecord, node string, own topology.Resources) {
	m := w.machine(node)
	spares := w.books.sparesOn(node, a.Job)
	isSpare := slices.ContainsFunc(a.Spares, func(s *messages.Spare) bool { return s.Node == node })
	if m == nil || w.hasLost() || len(m.launcher.faulted) > 0 || m.devicesAt > 0 || spares.IsZero() && !isSpare {
		return
	}
	sum := own.Plus(spares)
	for _, o := range w.books.attemptsOn(node) {
		if o.Job != a.Job && o.End == nil {
			sum = sum.Plus(amountOn(o, node))
		}
	}
	if all := m.empty(); sum.MilliGPU > int64(all.WholeGPUs)*topology.WholeGPU || sum.MilliCPU > all.MilliCPU ||
		sum.MemoryBytes > all.MemoryBytes {
		c.violate(w, "job %s and others hold %v on %s, of it spares %v, and it has %v", a.Job, sum, node, spares, all)
	}
}

// sparesOn returns what the spares of other jobs hold on a node, by the store.
func (b *books) sparesOn(node, but string) (sum topology.Resources) {
	for _, id := range b.ids {
		page := b.jobs[id]
		if id == but || page.record.Spec.GetRestart().GetSpares() == 0 {
			continue
		}
		a := b.attempts[messages.FromToken(page.record.Attempt)]
		over := a.GetEnd() != nil && (a.End.HoldMs == 0 || page.record.State != messages.JobState_JOB_STATE_ACTIVE)
		for _, s := range a.GetSpares() {
			if s.Node == node && !over {
				sum = sum.Plus(messages.FromResources(page.record.Spec.Each))
			}
		}
	}
	return sum
}
