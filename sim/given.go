package sim

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file holds the checkers' knowledge of start guarantees: the guarantees in the store, and events that allow a
// guarantee to be broken. Only the attempts in the store tell here when capacity becomes free.

// given is a start guarantee as the store has it.
type given struct {
	job     string
	promise *messages.Promise
	said    instant // when the job passed the guarantee to the Journal
	bound   instant // the earliest bound since the guarantee's nodes were last lost; 0: none was possible
	excuse  string  // why the guarantee may be broken
	waived  string  // the kind of the excuse, if S11a does not name it
}

// promised enters a job's start guarantee from a write.
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
	// otherwise its nodes were lost, and the guarantee starts again
	if was != nil && was.bound > 0 && was.excuse == g.excuse {
		g.bound = min(g.bound, was.bound)
	}
	b.given[s.job.Id] = g
}

func sameKept(a, b *messages.Promise) bool {
	return proto.Equal(&messages.Promise{Kept: a.Kept}, &messages.Promise{Kept: b.Kept})
}

// crowds reports whether a new attempt takes capacity that a guarantee needs on a node. It adds the new attempt, the
// attempts that satisfy these, and the reserved capacity.
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

// waitsFor reports whether a node cannot hold an attempt and the reserved capacity together. The guarantee then expects
// that the attempt leaves first, whatever else runs there.
func (g *given) waitsFor(w *World, a *messages.AttemptRecord, node string) bool {
	sum, _ := g.onMachine(node)
	room := w.machine(node).empty()
	total := topology.Resources{MilliCPU: room.MilliCPU, MemoryBytes: room.MemoryBytes,
		MilliGPU: int64(room.WholeGPUs) * topology.WholeGPU}
	return !sum.Plus(amountOn(a, node)).Within(total)
}

// nodesOf returns the nodes of a start guarantee.
func nodesOf(p *messages.Promise) (nodes []string) {
	for _, k := range p.Kept {
		if !slices.Contains(nodes, k.Node) {
			nodes = append(nodes, k.Node)
		}
	}
	return nodes
}

// onMachine returns the capacity that the guarantee reserves on one node.
func (g *given) onMachine(node string) (sum topology.Resources, any bool) {
	for _, k := range g.promise.Kept {
		if k.Node == node {
			sum, any = sum.Plus(messages.FromResources(k.Amount)), true
		}
	}
	return sum, any
}

// isPromised reports whether a job has a start guarantee with a bound, and no event that S11a names has happened.
func isPromised(w *World, page *jobPage) bool {
	g := w.books.given[page.record.Id]
	return g != nil && g.bound > 0 && (g.excuse == "" || g.waived != "")
}

// awayFromPromise returns why a job's start guarantee is not judged now.
func awayFromPromise(w *World, page *jobPage) string { return w.books.given[page.record.Id].waived }

// excuseAll looks for events that allow guarantees to be broken.
func (w *World) excuseAll() {
	if p := w.leader(); p != nil && p.leader != nil && w.leading != nil {
		for _, m := range w.machines {
			if _, closed, _ := p.leader.View(m.id); closed != "" {
				w.leading.closedAt[m.index] = w.engine.now
			}
		}
	}
	for _, id := range sortedKeys(w.books.given) {
		w.books.given[id].lookAround(w)
	}
}

// lookAround notes an event that allows the guarantee to be broken, if there is one now.
func (g *given) lookAround(w *World) {
	page := w.books.jobs[g.job]
	if g.excuse == "" && page != nil && page.longerSince > g.said {
		g.excuse, g.waived = "its own limit is a longer one", "its own limit was made longer"
	}
	if g.excuse == "" && w.books.queuesAt > g.said {
		// the new queues may have a lower limit
		g.excuse, g.waived = "the queues are other ones", "the queues were changed"
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

// takenBack reports whether one of these jobs may reclaim the quota that a guaranteed job borrows. Below the common
// ancestor of both queues, the reclaiming queue must stay within its quotas, and the borrowing queue must exceed one of
// its quotas.
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

// deviceNews is the time that a leader may take to learn of a GPU that failed or recovered, if its node is connected.
const deviceNews = 15 * time.Second

// whyUnsure returns the fault of a node with reserved capacity, or an empty string.
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
		// A node that has not reported by then, by the leader's own clock, counts as lost.
		recovered := w.ledSince.plus(p.clock.lasts(w.constants.RecoveryWait))
		_, closed, _ := p.leader.View(m.id)
		if p.leader.Withdrawn(m.id) != len(m.launcher.faulted) {
			return "of a device of " + k.Node + " the leader has yet to hear"
		}
		// otherwise the node may be unschedulable because it has not reported
		heard := w.leading.heardAt[m.index] > 0 || w.engine.now >= recovered
		if w.leading.quietAt[m.index] > max(g.said, recovered) || closed != "" && heard {
			return k.Node + " was away, or is closed: " + closed
		}
		if w.leading.closedAt[m.index] > g.said { // the guarantee may have come to the disk after that
			return k.Node + " was closed"
		}
	case w.led != nil && w.engine.now.since(w.led.heardAt[m.index]) >= w.constants.DeadAfter-time.Second:
		// The decision of a leader that died since may be written only now.
		return "the leader that died counted " + k.Node + " as lost"
	}
	return ""
}

// otherLimit returns a job that got a longer limit after a guarantee, on a node of that guarantee.
func (w *World) otherLimit(g *given, k *messages.Kept) (excuse, kind string) {
	if w.books.longerAt <= g.said {
		return "", ""
	}
	for _, a := range w.books.attemptsOn(k.Node) {
		if page := w.books.jobs[a.Job]; page != nil && page.longerSince > g.said {
			return a.Job + " on " + k.Node + " has a longer limit", "the limit of a holder was made longer"
		}
	}
	return "", ""
}

// takenOver examines each guarantee when a leader takes over. The new leader counts the remaining time of a guarantee
// from now on, because its clock does not know when the guarantee was written. The time that a waiting job had already
// spent is unknown to it.
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

// attemptsOn returns the attempts whose exit from a node is unconfirmed in the store.
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

// isOn reports whether an attempt still holds resources of a node.
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
