// Package sim runs the actors of Synapse on virtual time, in an order that a
// seed chooses, over a simulated network, disks, store and launchers. Nothing
// in the actors knows. The same seed gives the same run, whatever the machine.
package sim

import (
	"time"
)

// This file owns the order of things: which mailbox runs next, and what
// happens when. One goroutine, no wall clock.

// instant is virtual time since the run began. No actor sees it: each
// process reads it through its own, which drifts.
type instant int64

func (i instant) plus(d time.Duration) instant  { return i + instant(d) }
func (i instant) since(o instant) time.Duration { return time.Duration(i - o) }
func (i instant) duration() time.Duration       { return time.Duration(i) }

// occurrence is something that happens at an instant.
type occurrence interface{ happen() }

// action is an occurrence that is a function. Frequent ones are types of their own.
type action func()

func (d action) happen() { d() }

type scheduled struct {
	at   instant
	seq  uint64 // among equals, the first that was asked for
	what occurrence
}

// engine picks, by seed, one ready mailbox after the other and lets it have one
// message. Each step takes a little virtual time, so that timers race with messages.
type engine struct {
	now     instant
	order   *generator
	ready   []*mailbox
	agenda  []scheduled // a heap of four children each
	passes  []func()    // that come after all else of their instant
	seq     uint64
	steps   uint64
	costMax int // of a step, in nanoseconds of virtual time; 0: steps take none
	trace   *trace
	lag     time.Duration // after which a slow step's words leave
	halted  bool          // a violation: nothing more runs
	watch   func(*mailbox, any)
}

func newEngine(seed *generator) *engine {
	return &engine{order: seed.fork("order"), trace: newTrace(), costMax: 20_000}
}

// at puts an occurrence on the agenda; the past is now.
func (e *engine) at(when instant, what occurrence) {
	e.seq++
	e.push(scheduled{at: max(when, e.now).plus(e.lag), seq: e.seq, what: what})
}

func (e *engine) after(d time.Duration, what func()) { e.at(e.now.plus(d), action(what)) }

// step does one thing: it lets time pass to the next occurrence, or one mailbox
// have one message. It answers false when nothing will ever happen again before the limit.
func (e *engine) step(limit instant) bool {
	for !e.halted {
		for len(e.agenda) > 0 && e.agenda[0].at <= e.now {
			e.pop().what.happen()
			if e.halted {
				return false
			}
		}
		if e.runOne() {
			return true
		}
		if len(e.passes) > 0 {
			passes := e.passes
			e.passes = nil
			for _, begin := range passes {
				begin()
			}
			continue
		}
		if len(e.agenda) == 0 || e.agenda[0].at > limit {
			e.now = max(e.now, limit)
			return false
		}
		e.now = max(e.now, e.agenda[0].at)
	}
	return false
}

// runOne lets a mailbox chosen by the seed have one message, if any is ready.
func (e *engine) runOne() bool {
	for len(e.ready) > 0 {
		i := e.order.below(len(e.ready))
		box := e.ready[i]
		if box.proc.dead || box.proc.paused {
			e.unready(i)
			if !box.proc.dead {
				box.proc.parked = append(box.proc.parked, box)
			}
			continue
		}
		if box.busy > e.now {
			e.unready(i) // it wakes when it is through
			continue
		}
		message, system := box.take()
		if message == nil {
			e.unready(i)
			continue
		}
		e.steps++
		e.trace.word(uint64(e.now))
		e.trace.word(box.path)
		e.trace.kind(unwrapped(message))
		if e.watch != nil {
			e.watch(box, message)
		}
		e.lag = box.cost(message)
		box.deliver(message, system)
		cost := e.lag
		e.lag = 0
		box.toils(cost)
		if e.costMax > 0 {
			e.now += instant(1_000 + e.order.below(e.costMax))
		}
		return true
	}
	return false
}

// unready takes a mailbox off the ready ones. The place in the slice is chance
// anyway, so the last one may take it.
func (e *engine) unready(i int) {
	last := len(e.ready) - 1
	e.ready[i].queued = false
	e.ready[i] = e.ready[last]
	e.ready[last] = nil
	e.ready = e.ready[:last]
}

func (s scheduled) before(o scheduled) bool {
	return s.at < o.at || s.at == o.at && s.seq < o.seq
}

const children = 4 // of a place in the heap: flatter than two, so fewer cache misses

func (e *engine) push(s scheduled) {
	e.agenda = append(e.agenda, s)
	i := len(e.agenda) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !s.before(e.agenda[parent]) {
			break
		}
		e.agenda[i] = e.agenda[parent]
		i = parent
	}
	e.agenda[i] = s
}

func (e *engine) pop() scheduled {
	top := e.agenda[0]
	last := len(e.agenda) - 1
	s := e.agenda[last]
	e.agenda[last] = scheduled{}
	e.agenda = e.agenda[:last]
	if last == 0 {
		return top
	}
	i := 0
	for {
		first := i*children + 1
		if first >= last {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, last); c++ {
			if e.agenda[c].before(e.agenda[least]) {
				least = c
			}
		}
		if !e.agenda[least].before(s) {
			break
		}
		e.agenda[i] = e.agenda[least]
		i = least
	}
	e.agenda[i] = s
	return top
}
