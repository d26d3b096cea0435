// Package sim runs the actors of Synapse on virtual time, over a simulated network, disks, store and launchers. A seed
// chooses the order of all events. The actors cannot detect the simulation. The same seed gives the same run on every
// host.
package sim

import (
	"time"
)

// This file orders all events: which mailbox runs next, and what happens when. It uses one goroutine and no wall clock.

// instant is virtual time since the run began. No actor sees it. Each process reads its own clock, which drifts.
type instant int64

func (i instant) plus(d time.Duration) instant  { return i + instant(d) }
func (i instant) since(o instant) time.Duration { return time.Duration(i - o) }
func (i instant) duration() time.Duration       { return time.Duration(i) }

// occurrence is something that happens at an instant.
type occurrence interface{ happen() }

// action is a function as an occurrence. Frequent occurrences have their own types.
type action func()

func (d action) happen() { d() }

type scheduled struct {
	at   instant
	seq  uint64 // order among occurrences of the same instant
	what occurrence
}

// engine repeatedly picks a ready mailbox by seed and delivers one of its messages. Each step takes a little virtual
// time, so that timers race with messages.
type engine struct {
	now     instant
	order   *generator
	ready   []*mailbox
	agenda  []scheduled // a heap with four children per element
	passes  []func()    // passes, which run after all other occurrences of their instant
	seq     uint64
	steps   uint64
	costMax int // longest step in nanoseconds of virtual time; 0: steps take no time
	trace   *trace
	lag     time.Duration // delay after which the messages of a slow step leave
	halted  bool          // set by a violation: nothing more runs
	watch   func(*mailbox, any)
}

func newEngine(seed *generator) *engine {
	return &engine{order: seed.fork("order"), trace: newTrace(), costMax: 20_000}
}

// at schedules an occurrence. A time in the past counts as now.
func (e *engine) at(when instant, what occurrence) {
	e.seq++
	e.push(scheduled{at: max(when, e.now).plus(e.lag), seq: e.seq, what: what})
}

func (e *engine) after(d time.Duration, what func()) { e.at(e.now.plus(d), action(what)) }

// step advances time to the next occurrence, or delivers one message. It returns false if nothing will happen before
// the limit.
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

// runOne delivers one message of a mailbox that the seed chooses, if any is ready.
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
			e.unready(i) // the mailbox wakes when its step has ended
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

// unready removes a mailbox from the ready ones. The last one takes its place in the slice, because the order is random
// anyway.
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

const children = 4 // children per heap element: a flat heap has fewer cache misses

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
