package policy

// This file decides which queue has the next turn in a pass. Sibling queues within their quotas come first, by the used
// part of the quota. Queues that borrow follow, by their recent usage divided by their weight. Priority has no effect
// between queues, because otherwise all users would raise it. A pass starts one job at a time, because each start may
// change the order.

import (
	"cmp"
	"math/bits"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/heap"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// turns is the position of a queue in a pass.
type turns struct {
	of     *share.Branch
	above  *turns
	all    []*turns // its children that have ever taken part
	round  uint64
	bursts heap.Heap[*burst] // of a queue without children
	below  heap.Heap[*turns]
	at     int // index among its siblings

	within bool  // its next job would be within the quota
	part   int64 // used part of the quota, in millionths
	counts int64 // recent usage
	since  *entry
}

// inTree caches the position of a burst in the tree of queues, while the tree is the same.
type inTree struct {
	in    *share.Tree
	pool  string
	turns *turns
}

// turnsOf returns the position of a queue, and creates it if necessary.
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

// leafOf returns the branch where a burst's jobs count. It also computes their needs.
func (j *Judgement) leafOf(b *burst) *share.Branch {
	if at := &b.at; at.in != j.shares || at.pool != b.traits.Pool || b.needs == nil {
		*at = inTree{j.shares, b.traits.Pool, j.turnsOf(j.shares.Leaf(b.key.queue, b.key.owner))}
		b.needs = j.shares.Needs(b.traits.Pool, estimate.TotalOf(&b.jobs[0].Gang))
	}
	return b.at.turns.of
}

// next returns the burst with the next turn, or nil.
func (t *turns) next() *burst {
	switch {
	case len(t.bursts.Items) > 0:
		return t.bursts.Items[0]
	case len(t.below.Items) > 0:
		return t.below.Items[0].next()
	}
	return nil
}

// visitShares gives turns to all bursts if there are queues. Free capacity only shrinks in a pass. The pass therefore
// ends early when no remaining shape has a place, even on reserved capacity, and no class has a promise left.
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
	left  int  // bursts whose next job has this shape
	full  bool // no place is left for any of them, even on reserved capacity
}

// joins counts bursts whose next job has this shape. It returns the change in the number of bursts that may have a
// place.
func (g *group) joins(round uint64, by int) int {
	if g.inTurn.round != round {
		g.inTurn = groupTurns{round: round}
	}
	if g.inTurn.left += by; g.inTurn.full {
		return 0
	}
	return by
}

// isFull reports whether a refused shape would have no place on reserved capacity either.
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

// awaits counts the bursts of a pool and a class that have not had their turn.
func (j *Judgement) awaits(b *burst, by int) {
	p := j.pool(b)
	if p.asked != j.round {
		p.asked, p.awaited = j.round, [2]int{}
	}
	p.awaited[b.class()] += by
}

// class returns the class of a burst's promises: 0 for jobs that fit on one node, 1 for gangs.
func (b *burst) class() int {
	if b.gang {
		return 1
	}
	return 0
}

// promises reports whether a burst that has not had its turn may still get a promise.
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

// advance moves to the burst's next waiting job without a firm promise. It returns false if there is none.
func (b *burst) advance() bool {
	for b.turn++; b.turn < len(b.jobs); b.turn++ {
		if b.jobs[b.turn].awaitsTurn() {
			return true
		}
	}
	return false
}

// haveTurn handles the job whose turn it is. It returns false if the burst is done. A probe that could not start has
// another turn at the regular position of its burst.
func (j *Judgement) haveTurn(b *burst) bool {
	e := b.jobs[b.turn]
	if !b.probes {
		return j.attend(b, e) && b.advance()
	}
	b.probes = false
	return j.isOver(b, e, nil) || !j.tryStart(b, e) || b.advance()
}

// attend starts a job or gives it a promise. It returns false if the burst is done in this pass.
func (j *Judgement) attend(b *burst, e *entry) bool {
	if !j.isOver(b, e, nil) && j.tryStart(b, e) {
		return true
	}
	return j.preempt(b, e) || b.over == nil && j.promise(b, e)
}

// enter lets a queue and its ancestors take part in the pass.
func (j *Judgement) enter(leaf *turns, b *burst) {
	for t := leaf; t != nil && t.round != j.round; t = t.above {
		t.round, t.bursts.Items, t.below.Items = j.round, t.bursts.Items[:0], t.below.Items[:0]
	}
	if b != nil {
		leaf.bursts.Push(b)
	}
}

// sooner orders the bursts of a queue by their next jobs.
func (b *burst) sooner(o *burst) int {
	return cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.turnRank(), o.turnRank()),
		entryOrder(b.jobs[b.turn], o.jobs[o.turn]))
}

// ready sorts the descendants of a queue, bottom up.
func (j *Judgement) ready(t *turns) {
	for _, b := range t.all {
		if b.round == j.round {
			j.ready(b)
			j.weigh(b)
			t.below.Push(b)
		}
	}
}

// weigh updates the sort key of a queue.
func (j *Judgement) weigh(t *turns) {
	b := t.next()
	t.within, t.part, t.counts = t.of.IsWithin(b.needs), t.of.PartInUse(), t.of.Counts(j.now)
	t.since = b.jobs[b.turn]
}

// moveTurn sorts a queue among its siblings after a change.
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

// sooner orders sibling queues.
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

// compareProducts compares a·b with c·d for numbers that are not negative.
func compareProducts(a, b, c, d int64) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	otherHi, otherLo := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(hi, otherHi), cmp.Compare(lo, otherLo))
}
