package rival

// This file implements EASY backfilling: the first job in line gets the time at which the ends of running jobs leave
// enough capacity, and any job that does not delay it may start earlier.

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// easy holds the state of backfilling between passes.
type easy struct {
	running []runner
	ended   bool          // a job ended earlier than expected since the reservation was made
	head    *waiter       // the job with the reservation; nil: none
	until   time.Duration // when it will fit; negative: unknown
	later   Ground        // the capacity at that time, without the head

	sizes map[int][]*waiter // waiting jobs by their GPUs, in order of arrival
	at    map[int]int       // position of the pass in each of these lists
}

// runner is a running gang.
type runner struct {
	job   topology.JobID
	ends  time.Duration
	place Place
}

func (e *easy) came(g *waiter) {
	all := e.sizes[g.gpus]
	at, _ := slices.BinarySearchFunc(all, g, func(a, b *waiter) int { return cmp.Compare(a.Arrived, b.Arrived) })
	e.sizes[g.gpus] = slices.Insert(all, at, g)
}

func (e *easy) started(g *waiter, place Place, now time.Duration) {
	g.started = true
	e.running = append(e.running, runner{g.Job, now + g.length, place})
}

// letGo removes started jobs from the line of a size.
func (e *easy) letGo(gpus int) {
	e.sizes[gpus] = slices.DeleteFunc(e.sizes[gpus], func(g *waiter) bool { return g.started })
}

// look removes the jobs that have ended.
func (e *easy) look(now time.Duration, oracle Oracle) {
	e.running = slices.DeleteFunc(e.running, func(r runner) bool {
		over := oracle.Over(r.job)
		e.ended = e.ended || over && r.ends > now
		return over
	})
}

func (p *Planner) backfilling() {
	e := &p.easy
	e.look(p.now, p.oracle)
	head := p.startHeads()
	if head == nil || p.ground.free() == 0 {
		return
	}
	if e.head != head || e.ended {
		p.promise(head)
	}
	p.fill(head)
}

// startHeads starts the first jobs in line while they fit, and returns the first that does not.
func (p *Planner) startHeads() *waiter {
	for p.one.Len() > 0 {
		first := p.one[0]
		if p.waits(first) {
			if !p.ground.fits(first) {
				p.stuck = p.ground.free() >= first.gpus
				return first
			}
			p.start(first, p.ground.choose(first))
		}
		heap.Pop(&p.one)
		first.started = true // or cancelled
		p.easy.head = nil
		p.easy.letGo(first.gpus)
	}
	p.easy.head = nil
	return nil
}

// promise computes when the head will fit.
func (p *Planner) promise(head *waiter) {
	e := &p.easy
	e.head, e.ended, e.later, e.until = head, false, p.ground.clone(), -1
	slices.SortStableFunc(e.running, func(a, b runner) int { return cmp.Compare(a.ends, b.ends) })
	for _, r := range e.running {
		if e.until >= 0 && r.ends > e.until {
			break
		}
		e.later.give(r.place)
		if e.until < 0 && e.later.fits(head) {
			e.until = r.ends
		}
	}
	if e.until >= 0 {
		e.later.take(e.later.choose(head))
	}
}

// fill starts jobs in the order of the line if they end by the reserved time, or leave enough capacity for the head.
func (p *Planner) fill(head *waiter) {
	e := &p.easy
	var next waitHeap
	for gpus, all := range e.sizes { //order: a heap brings them into theirs
		if len(all) > 0 && p.ground.fits(all[0]) {
			e.at[gpus], next = 0, append(next, all[0])
		}
	}
	heap.Init(&next)
	beside := map[int]bool{} // sizes of which no job fits next to the head
	started := map[int]bool{}
	for next.Len() > 0 && p.ground.free() > 0 {
		g := heap.Pop(&next).(*waiter)
		if !p.ground.fits(g) {
			continue
		}
		if g != head && p.waits(g) {
			p.pass(g, beside)
			started[g.gpus] = started[g.gpus] || g.started
		}
		all, i := e.sizes[g.gpus], e.at[g.gpus]+1
		for beside[g.gpus] && i < len(all) && !p.short(all[i]) { // only short jobs can still start
			i++
		}
		if e.at[g.gpus] = i; i < len(all) {
			heap.Push(&next, all[i])
		}
	}
	for gpus := range started { //order: each line by itself
		e.letGo(gpus)
	}
}

// short reports whether a gang ends by the time at which the head will fit.
func (p *Planner) short(g *waiter) bool { return p.easy.until < 0 || p.now+g.length <= p.easy.until }

// pass starts a gang before the head, if that delays nothing.
func (p *Planner) pass(g *waiter, beside map[int]bool) {
	if p.short(g) {
		p.start(g, p.ground.choose(g))
		return
	}
	if beside[g.gpus] {
		return
	}
	place, ok := p.ground.both(p.easy.later, g)
	if !ok {
		beside[g.gpus] = true
		return
	}
	p.start(g, place)
	p.easy.later.take(place)
}
