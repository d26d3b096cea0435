package policy

// This file owns which queue has the next turn in a pass. Among the queues below one: first those that stay within what
// they are assured, the least of it in use first; then those that borrow, by what they used of late for their weight.
// Priority never crosses a queue, or everybody's would rise. A pass starts one job at a time, for with each the order
// may be another.

import (
	"cmp"
	"math/bits"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/heap"
	"github.com/yi-json/synapse/topology"
)

// turns is where a queue stands in a pass.
type turns struct {
	round  uint64
	bursts heap.Heap[*burst] // of a queue without others below it
	below  heap.Heap[*branch]
	at     int // its place among those below its parent

	within  bool  // what is next would be within quota
	part    int64 // of the quota in use, in millionths
	counts  int64 // what was used of late
	used    used  // by which that was found …
	weighed int64 // … and when
	since   *entry
}

// inTree is where a burst stands in the tree of queues, as long as that is the same tree.
type inTree struct {
	in   *shares
	pool string
	leaf *branch
}

// leafOf is where a burst's jobs are counted; it sees to it that what they need is known.
func (j *Judgement) leafOf(b *burst) *branch {
	if at := &b.at; at.in != j.shares || at.pool != b.traits.Pool || b.needs == nil {
		*at = inTree{j.shares, b.traits.Pool, j.shares.leaf(b.key.queue, b.key.owner)}
		b.needs = j.shares.needs(b.traits.Pool, estimate.TotalOf(&b.jobs[0].Gang))
	}
	return b.at.leaf
}

// next is the burst in whose turn it is; nil: none waits here.
func (h *branch) next() *burst {
	switch {
	case len(h.turns.bursts.Items) > 0:
		return h.turns.bursts.Items[0]
	case len(h.turns.below.Items) > 0:
		return h.turns.below.Items[0].next()
	}
	return nil
}

// visitShares is the pass over all bursts where there are queues. Room only shrinks in a pass: where no shape that is
// left has a place, nor would have one on what is kept, and no class of jobs a promise to come, it is through, however
// many queues have not had their turn.
func (j *Judgement) visitShares(all []*burst) {
	s := j.shares
	open := 0 // bursts of a shape that may have a place
	for _, b := range all {
		b.over = nil
		if b.turn = -1; b.advance() {
			j.enter(j.leafOf(b), b)
			j.awaits(b, 1)
			open += b.jobs[b.turn].group.joins(j.round, 1)
		}
	}
	j.enter(s.root, nil)
	j.ready(s.root)
	for b := s.root.next(); b != nil && (open > 0 || s.preempting || j.forgetful || j.promises()); b = s.root.next() {
		leaf, g := j.leafOf(b), b.jobs[b.turn].group
		goesOn := j.haveTurn(b)
		open += g.joins(j.round, -1)
		if goesOn {
			open += b.jobs[b.turn].group.joins(j.round, 1)
			leaf.turns.bursts.Down(0)
		} else {
			leaf.turns.bursts.Remove(0)
			j.awaits(b, -1)
		}
		if t := &g.inTurn; !t.full && j.isFull(g) {
			t.full = true
			open -= t.left
		}
		for h := leaf; h.parent != nil; h = h.parent {
			j.moveTurn(h)
		}
	}
}

// groupTurns is what a pass over queues knows of the bursts of one shape.
type groupTurns struct {
	round uint64
	left  int  // whose next job is of it
	full  bool // no place is left for any of them, lent or not
}

// joins counts bursts whose next job is of this shape, and returns how many more of them may have a place.
func (g *group) joins(round uint64, by int) int {
	if g.inTurn.round != round {
		g.inTurn = groupTurns{round: round}
	}
	if g.inTurn.left += by; g.inTurn.full {
		return 0
	}
	return by
}

// isFull reports whether a shape that was refused would have no place on what is kept either.
func (j *Judgement) isFull(g *group) bool {
	r := j.refusedIn(g, false)
	if !r.bare || r.all {
		return r.all
	}
	gang := g.wanted(j.view)
	_, ok := topology.PlaceLent(j.view, &gang, topology.Lent{All: true}, &j.queue.unread)
	r.all = !ok
	return r.all
}

// awaits counts the bursts of a pool and a class that have yet to have their turn.
func (j *Judgement) awaits(b *burst, by int) {
	p := j.pool(b)
	if p.asked != j.round {
		p.asked, p.awaited = j.round, [2]int{}
	}
	p.awaited[b.class()] += by
}

// class is which promises a burst's jobs have: those of jobs that one machine can hold, or those of gangs.
func (b *burst) class() int {
	if b.gang {
		return 1
	}
	return 0
}

// promises reports whether a burst that has yet to have its turn may be promised room.
func (j *Judgement) promises() bool {
	for i := range j.pools.all {
		p := &j.pools.all[i]
		if p.asked == j.round && (p.awaited[0] > 0 && p.moving[0] < j.settings.PromisesOnes ||
			p.awaited[1] > 0 && p.moving[1] < j.settings.PromisesGangs) {
			return true
		}
	}
	return false
}

// advance goes to the burst's next job that waits and holds no firm promise; false: there is none.
func (b *burst) advance() bool {
	for b.turn++; b.turn < len(b.jobs); b.turn++ {
		if b.jobs[b.turn].awaitsTurn() {
			return true
		}
	}
	return false
}

// haveTurn attends to the job whose turn it is; false: its burst is through. One that only had its turn early, and
// could not start, has it again where its burst stands.
func (j *Judgement) haveTurn(b *burst) bool {
	e := b.jobs[b.turn]
	if !b.probes {
		return j.attend(b, e) && b.advance()
	}
	b.probes = false
	return j.isOver(b, e, nil) || !j.tryStart(b, e) || b.advance()
}

// attend starts a job, or promises it room; false: its burst is left for this pass.
func (j *Judgement) attend(b *burst, e *entry) bool {
	if !j.isOver(b, e, nil) && j.tryStart(b, e) {
		return true
	}
	return j.preempt(b, e) || b.over == nil && j.promise(b, e)
}

// enter lets a queue, and all above it, take part in the pass.
func (j *Judgement) enter(leaf *branch, b *burst) {
	for h := leaf; h != nil && h.turns.round != j.round; h = h.parent {
		t := &h.turns
		t.round = j.round
		t.bursts.Items, t.bursts.Before = t.bursts.Items[:0], func(a, b *burst) bool { return a.sooner(b) < 0 }
		t.below.Items, t.below.Before = t.below.Items[:0], (*branch).sooner
		t.below.Moved = func(h *branch, at int) { h.turns.at = at }
	}
	if b != nil {
		leaf.turns.bursts.Push(b)
	}
}

// sooner is the order of bursts in a queue, by the job that each has reached.
func (b *burst) sooner(o *burst) int {
	return cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.turnRank(), o.turnRank()),
		entryOrder(b.jobs[b.turn], o.jobs[o.turn]))
}

// ready orders those below a queue, from the bottom up.
func (j *Judgement) ready(h *branch) {
	for _, b := range h.below {
		if b.turns.round == j.round {
			j.ready(b)
			j.weigh(b)
			h.turns.below.Push(b)
		}
	}
}

// weigh brings up to date where a queue stands.
func (j *Judgement) weigh(h *branch) {
	t, b := &h.turns, h.next()
	t.within, t.part = h.isWithin(b.needs), 0
	if t.since = b.jobs[b.turn]; t.used != h.used || t.weighed != j.now {
		t.counts, t.used, t.weighed = h.used.counts(j.now), h.used, j.now
	}
	for i, quota := range h.quota {
		if quota > 0 {
			t.part = max(t.part, topology.Scaled(h.has[i], 1_000_000, quota))
		}
	}
}

// moveTurn gives a queue its place among those beside it, when something changed in it.
func (j *Judgement) moveTurn(h *branch) {
	beside := &h.parent.turns.below
	if h.next() == nil {
		beside.Remove(h.turns.at)
		return
	}
	j.weigh(h)
	beside.Up(h.turns.at)
	beside.Down(h.turns.at)
}

// isWithin reports whether a queue that takes so much more has no more than it is assured. Amounts that no quota names
// are not counted.
func (h *branch) isWithin(needs []int64) bool {
	for i, quota := range h.quota {
		if quota >= 0 && needs[i] > 0 && h.has[i]+needs[i] > quota {
			return false
		}
	}
	return h.assured
}

// sooner is the order of queues beside each other.
func (h *branch) sooner(o *branch) bool {
	a, b := &h.turns, &o.turns
	if a.within != b.within {
		return a.within
	}
	order := cmp.Compare(a.part, b.part)
	if !a.within {
		order = compareProducts(a.counts, o.weight, b.counts, h.weight)
	}
	return cmp.Or(order, entryOrder(a.since, b.since), cmp.Compare(h.at, o.at)) < 0
}

// compareProducts compares a·b with c·d, of what is not negative.
func compareProducts(a, b, c, d int64) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	otherHi, otherLo := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(hi, otherHi), cmp.Compare(lo, otherLo))
}
