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
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// turns is where a queue stands in a pass.
type turns struct {
	of     *share.Branch
	above  *turns
	all    []*turns // of the queues below it that ever took part
	round  uint64
	bursts heap.Heap[*burst] // of a queue without others below it
	below  heap.Heap[*turns]
	at     int // its place among those below its parent

	within bool  // what is next would be within quota
	part   int64 // of the quota in use, in millionths
	counts int64 // what was used of late
	since  *entry
}

// inTree is where a burst stands in the tree of queues, as long as that is the same tree.
type inTree struct {
	in    *share.Tree
	pool  string
	turns *turns
}

// turnsOf finds where a queue stands.
func (j *Judgement) turnsOf(h *share.Branch) *turns {
	t := j.turns[h]
	if t == nil {
		t = &turns{of: h}
		t.bursts.Before, t.below.Before = func(a, b *burst) bool { return a.sooner(b) < 0 }, (*turns).sooner
		t.below.Moved = func(b *turns, at int) { b.at = at }
		if j.turns[h] = t; h.Parent != nil {
			t.above = j.turnsOf(h.Parent)
			t.above.all = append(t.above.all, t)
		}
	}
	return t
}

// leafOf is where a burst's jobs are counted; it sees to it that what they need is known.
func (j *Judgement) leafOf(b *burst) *share.Branch {
	if at := &b.at; at.in != j.shares || at.pool != b.traits.Pool || b.needs == nil {
		*at = inTree{j.shares, b.traits.Pool, j.turnsOf(j.shares.Leaf(b.key.queue, b.key.owner))}
		b.needs = j.shares.Needs(b.traits.Pool, estimate.TotalOf(&b.jobs[0].Gang))
	}
	return b.at.turns.of
}

// next is the burst in whose turn it is; nil: none waits here.
func (t *turns) next() *burst {
	switch {
	case len(t.bursts.Items) > 0:
		return t.bursts.Items[0]
	case len(t.below.Items) > 0:
		return t.below.Items[0].next()
	}
	return nil
}

// visitShares is the pass over all bursts where there are queues. Room only shrinks in a pass: where no shape that is
// left has a place, nor would have one on what is kept, and no class of jobs a promise to come, it is through, however
// many queues have not had their turn.
func (j *Judgement) visitShares(all []*burst) {
	root := j.turnsOf(j.shares.Root)
	open := 0 // bursts of a shape that may have a place
	for _, b := range all {
		b.over = nil
		if b.turn = -1; b.advance() {
			j.leafOf(b)
			j.enter(b.at.turns, b)
			j.awaits(b, 1)
			open += b.jobs[b.turn].group.joins(j.round, 1)
		}
	}
	j.enter(root, nil)
	j.ready(root)
	goOn := func() bool { return open > 0 || j.shares.Preempting || j.forgetful || j.promises() }
	for b := root.next(); b != nil && goOn(); b = root.next() {
		t, g := b.at.turns, b.jobs[b.turn].group
		goesOn := j.haveTurn(b)
		open += g.joins(j.round, -1)
		if goesOn {
			open += b.jobs[b.turn].group.joins(j.round, 1)
			t.bursts.Down(0)
		} else {
			t.bursts.Remove(0)
			j.awaits(b, -1)
		}
		if !g.inTurn.full && j.isFull(g) {
			g.inTurn.full = true
			open -= g.inTurn.left
		}
		for ; t.above != nil; t = t.above {
			j.moveTurn(t)
		}
	}
}

// groupTurns holds what a pass over queues knows of the bursts of one shape.
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
func (j *Judgement) enter(leaf *turns, b *burst) {
	for t := leaf; t != nil && t.round != j.round; t = t.above {
		t.round, t.bursts.Items, t.below.Items = j.round, t.bursts.Items[:0], t.below.Items[:0]
	}
	if b != nil {
		leaf.bursts.Push(b)
	}
}

// sooner is the order of bursts in a queue, by the job that each has reached.
func (b *burst) sooner(o *burst) int {
	return cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.turnRank(), o.turnRank()),
		entryOrder(b.jobs[b.turn], o.jobs[o.turn]))
}

// ready orders those below a queue, from the bottom up.
func (j *Judgement) ready(t *turns) {
	for _, b := range t.all {
		if b.round == j.round {
			j.ready(b)
			j.weigh(b)
			t.below.Push(b)
		}
	}
}

// weigh brings up to date where a queue stands.
func (j *Judgement) weigh(t *turns) {
	b := t.next()
	t.within, t.part, t.counts = t.of.IsWithin(b.needs), t.of.PartInUse(), t.of.Counts(j.now)
	t.since = b.jobs[b.turn]
}

// moveTurn gives a queue its place among those beside it, when something changed in it.
func (j *Judgement) moveTurn(t *turns) {
	beside := &t.above.below
	if t.next() == nil {
		beside.Remove(t.at)
		return
	}
	j.weigh(t)
	beside.Up(t.at)
	beside.Down(t.at)
}

// sooner is the order of queues beside each other.
func (t *turns) sooner(o *turns) bool {
	if t.within != o.within {
		return t.within
	}
	order := cmp.Compare(t.part, o.part)
	if !t.within {
		order = compareProducts(t.counts, o.of.Weight, o.counts, t.of.Weight)
	}
	return cmp.Or(order, entryOrder(t.since, o.since), cmp.Compare(t.of.At, o.of.At)) < 0
}

// compareProducts compares a·b with c·d, of what is not negative.
func compareProducts(a, b, c, d int64) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	otherHi, otherLo := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(hi, otherHi), cmp.Compare(lo, otherLo))
}
