package sim

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the checkers know of firm promises: what the store has of each, and whether something has come
// between that allows it to be broken. Here the attempts in the store alone tell when room comes free.

// given is a firm promise as it is in the store.
type given struct {
	job     string
	promise *messages.Promise
	said    instant // when its job handed it to the Journal
	bound   instant // the earliest that was said since its machines were lost last; 0: none could be
	excuse  string  // why it may be broken
	waived  string  // the kind of the excuse, where it is none of those that S11a names
}

// promised enters what a write says of a job's firm promise.
func (b *books) promised(s *stored) {
	was, p := b.given[s.job.Id], s.job.Promise
	switch {
	case p == nil:
		delete(b.given, s.job.Id)
		return
	case was != nil && proto.Equal(was.promise, p):
		return
	}
	g := &given{job: s.job.Id, promise: p, said: s.decided}
	if p.LeftMs > 0 {
		g.bound = s.decided.plus(time.Duration(p.LeftMs) * time.Millisecond)
	}
	if was != nil && sameKept(was.promise, p) {
		g.excuse, g.waived = was.excuse, was.waived
	}
	if was != nil && was.bound > 0 && was.excuse == g.excuse { // else its machines were lost, and it begins again
		g.bound = min(g.bound, was.bound)
	}
	b.given[s.job.Id] = g
}

func sameKept(a, b *messages.Promise) bool {
	return proto.Equal(&messages.Promise{Kept: a.Kept}, &messages.Promise{Kept: b.Kept})
}

// crowds reports whether what a new attempt and others like these have on a machine leaves no room for a promise, of
// something that the new one has there.
func (g *given) crowds(
	w *World, a *messages.AttemptRecord, node string, these func(*messages.AttemptRecord) bool,
) bool {
	sum, _ := g.onMachine(node)
	own := amountOn(a, node)
	sum = sum.Plus(own)
	for _, o := range w.books.attemptsOn(node) {
		if o.Job != g.job && o.Job != a.Job && these(o) {
			sum = sum.Plus(amountOn(o, node))
		}
	}
	room := w.machine(node).empty()
	return own.MilliCPU > 0 && sum.MilliCPU > room.MilliCPU || own.MemoryBytes > 0 && sum.MemoryBytes > room.MemoryBytes ||
		own.MilliGPU > 0 && sum.MilliGPU > int64(room.WholeGPUs)*topology.WholeGPU
}

// waitsFor reports whether a machine does not hold both what an attempt has there and what is promised: then that has
// left before the promise begins, whoever else is there.
func (g *given) waitsFor(w *World, a *messages.AttemptRecord, node string) bool {
	sum, _ := g.onMachine(node)
	room := w.machine(node).empty()
	total := topology.Resources{MilliCPU: room.MilliCPU, MemoryBytes: room.MemoryBytes,
		MilliGPU: int64(room.WholeGPUs) * topology.WholeGPU}
	return !sum.Plus(amountOn(a, node)).Within(total)
}

// nodesOf are the machines of a promise.
func nodesOf(p *messages.Promise) (nodes []string) {
	for _, k := range p.Kept {
		if !slices.Contains(nodes, k.Node) {
			nodes = append(nodes, k.Node)
		}
	}
	return nodes
}

// onMachine returns the capacity of one node that is promised.
func (g *given) onMachine(node string) (sum topology.Resources, any bool) {
	for _, k := range g.promise.Kept {
		if k.Node == node {
			sum, any = sum.Plus(messages.FromResources(k.Amount)), true
		}
	}
	return sum, any
}

// isPromised reports whether a job has a firm promise with a bound, and nothing has happened that S11a names.
func isPromised(w *World, page *jobPage) bool {
	g := w.books.given[page.record.Id]
	return g != nil && g.bound > 0 && (g.excuse == "" || g.waived != "")
}

// awayFromPromise is why what becomes of a job's promise is not judged now.
func awayFromPromise(w *World, page *jobPage) string { return w.books.given[page.record.Id].waived }

// excuseAll looks at what may have come between the promises and their machines.
func (w *World) excuseAll() {
	for _, id := range sortedKeys(w.books.given) {
		w.books.given[id].lookAround(w)
	}
}

// lookAround notes what allows a promise to be broken, if that is so now.
func (g *given) lookAround(w *World) {
	page := w.books.jobs[g.job]
	if g.excuse == "" && page != nil && page.longerSince > g.said {
		g.excuse, g.waived = "its own limit is a longer one", "its own limit was made longer"
	}
	if g.excuse == "" && w.books.queuesAt > g.said {
		g.excuse, g.waived = "the queues are other ones", "the queues were changed" // and may have a lower limit
	}
	if array, _, _ := messages.ArrayOf(g.job); g.excuse == "" && w.books.jobs[array] != nil &&
		w.books.jobs[array].mostSince > g.said {
		g.excuse, g.waived = "its array may run fewer", "the limit of its array was changed"
	}
	if g.excuse == "" && w.hasLost() {
		g.excuse, g.waived = "the store has lost attempts", "the store has lost attempts"
	}
	for _, k := range g.promise.Kept {
		if g.excuse != "" {
			return
		}
		if g.excuse = w.whyUnsure(g, k); g.excuse == "" {
			g.excuse, g.waived = w.otherLimit(g, k)
		}
		if g.excuse == "" && w.machine(k.Node).mayLie(g.said) {
			g.excuse, g.waived = k.Node+" lies, or did", "a node of it lies, or did"
		}
	}
}

// takenBack reports whether one of these jobs may take back what the queue of a promise borrows for its job, as the
// promise says: its queue takes back, and up to where the two meet it stays within what it is assured, and all of the
// other's that are assured something do not.
func (g *given) takenBack(w *World, these func(*messages.JobRecord) bool) bool {
	page := w.books.jobs[g.job]
	return g.promise.OnLoan && page != nil && slices.ContainsFunc(w.books.ids, func(id string) bool {
		r := w.books.jobs[id].record
		if !these(r) || !w.reclaims(r.Spec.GetQueue()) {
			return false
		}
		own, assured := w.standing(r, page.record, nothingMore)
		other, _ := w.standing(page.record, r, func(queue string) int64 { return w.starting(queue, g.job) })
		return assured > 0 && own == assured && other == 0
	})
}

func queuedNow(r *messages.JobRecord) bool { return r.State == messages.JobState_JOB_STATE_QUEUED }

// deviceNews is how long a leader takes to hear of a device that broke or was mended, where its machine can be heard.
const deviceNews = 15 * time.Second

// whyUnsure returns the fault of a node with promised capacity; empty: none.
func (w *World) whyUnsure(g *given, k *messages.Kept) string {
	m, n, p := w.machine(k.Node), w.books.nodes[k.Node], w.leader()
	switch {
	case m == nil || !m.core() || !w.open(m) || n.MachineId != k.MachineId:
		return k.Node + " is lost or closed"
	case m.devicesAt > 0 && m.devicesAt.plus(deviceNews) > g.said:
		return k.Node + " has lost a device, or has one more"
	case m.launcher.health.illAt > 0 && m.launcher.health.illAt.plus(deviceNews) > g.said:
		return k.Node + " was not well"
	case p != nil && p.leader != nil:
		// Who is not heard by then, by the leader's own clock, counts as lost.
		recovered := w.ledSince.plus(p.clock.lasts(w.constants.RecoveryWait))
		_, closed, _ := p.leader.View(m.id)
		if p.leader.Withdrawn(m.id) != len(m.launcher.faulted) {
			return "of a device of " + k.Node + " the leader has yet to hear"
		}
		heard := w.leading.heardAt[m.index] > 0 || w.engine.now >= recovered // else it may be closed for want of a word
		if w.leading.quietAt[m.index] > max(g.said, recovered) || closed != "" && heard {
			return k.Node + " was away, or is closed: " + closed
		}
	}
	return ""
}

// otherLimit returns a job that got a longer limit after a promise, on a node of that promise.
func (w *World) otherLimit(g *given, k *messages.Kept) (excuse, kind string) {
	for _, a := range w.books.attemptsOn(k.Node) {
		if page := w.books.jobs[a.Job]; page != nil && page.longerSince > g.said {
			return a.Job + " on " + k.Node + " has a longer limit", "the limit of a holder was made longer"
		}
	}
	return "", ""
}

// takenOver looks at each promise as a leader takes over: of what had not begun nobody can say what it has spent. The
// leader counts the time that was left of a promise when it was written from now on, because no clock of its own says
// when that was.
func (w *World) takenOver() {
	for _, id := range sortedKeys(w.books.given) {
		g := w.books.given[id]
		w.count("promises.taken-over", 1)
		if g.bound > 0 {
			g.bound = max(g.bound, w.engine.now.plus(time.Duration(g.promise.LeftMs)*time.Millisecond))
		}
		for _, k := range g.promise.Kept {
			for _, a := range w.books.attemptsOn(k.Node) {
				if a.StartedUnixMs == 0 && g.excuse == "" {
					g.excuse = a.Job + " had not begun when a leader took over"
					g.waived = "a holder had not begun when a leader took over"
				}
			}
		}
	}
}

// attemptsOn are the attempts of which the store has no evidence that they have left a machine.
func (b *books) attemptsOn(node string) (all []*messages.AttemptRecord) {
	for _, id := range b.ids {
		for _, t := range b.jobs[id].tokens {
			if a := b.attempts[t]; a != nil && isOn(a, node) {
				all = append(all, a)
			}
		}
	}
	return all
}

// isOn reports whether an attempt still has some of a machine.
func isOn(a *messages.AttemptRecord, node string) bool {
	for _, p := range a.Places {
		if p.Node == node && p.Exit == nil {
			return true
		}
	}
	return false
}

// amountOn returns the resources of an attempt on a node.
func amountOn(a *messages.AttemptRecord, node string) (sum topology.Resources) {
	for _, p := range a.Places {
		if p.Node == node && p.Exit == nil {
			sum = sum.Plus(messages.FromResources(p.Grant.GetAmount()))
		}
	}
	return sum
}
