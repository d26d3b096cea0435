package sim

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the checks of a machine's own health: what is true of it, and what the last check has found, which is
// another thing. A machine has checks where machines may fall ill in the run; elsewhere nothing is checked, and no
// agent waits for anything.

// health holds a launcher's knowledge of its node's health. Defects of the node outlive boots.
type health struct {
	found   string  // by the last check that ended; empty: nothing
	pending bool    // that of the agent's start has not ended
	again   bool    // a check that failed is repeated
	illAt   instant // when a check last failed
	// lookedFor are the attempts for which the checks before work have ended.
	lookedFor map[topology.Token]bool
}

const (
	checkLasts = 2 * time.Second // at most, if it does not hang
	checkHangs = 5 * time.Second // before it is killed
	checkAgain = 5 * time.Second
)

// unwell has a machine fall ill, for a while: its next check finds it.
func unwell(f *faults, m *machine) bool {
	if m.ails {
		return false
	}
	m.ails = true
	d := f.w.luck.skewed(time.Second, f.w.draw.Pace)
	f.w.say("%s is not well for %s", m.address, d)
	f.until(d, func() { m.ails = false })
	return true
}

// healthNow returns the launcher's report of its node's health; nil: it has no checks.
func (l *launcher) healthNow() *messages.MachineHealth {
	if !l.w.draw.Checks {
		return nil
	}
	return &messages.MachineHealth{Unwell: l.health.found, Pending: l.health.pending, BeforeWork: true, AfterFailure: true}
}

// joins begins the checks of an agent's start.
func (l *launcher) joins() {
	if l.w.draw.Checks {
		l.health.pending = true
		l.check(func() { l.health.pending = false; l.tellHealth(nil) })
	}
}

// onCheck runs the checks that come before work, or after a failure.
func (l *launcher) onCheck(c *messages.CheckMachine) {
	l.check(func() {
		if c.Token != nil {
			l.health.lookedFor[messages.FromToken(c.Token)] = true
		}
		l.tellHealth(c.Token)
	})
}

// fit reports whether a machine is well, as its last check has it.
func (l *launcher) fit() bool { return l.health.found == "" && !l.health.pending }

// check runs once, and finds what is true when it ends. Now and then it hangs until it is killed, which is a failure.
func (l *launcher) check(ended func()) {
	lasts := l.w.ills.skewed(time.Millisecond, checkLasts)
	hangs := l.m.ails && l.w.ills.chance(0.25)
	if hangs {
		lasts = checkHangs
	}
	l.afterwards(lasts, func() {
		before := l.health.found
		l.health.found = ""
		switch {
		case hangs:
			l.health.found = "fabric: it did not end within 5s"
		case l.m.ails:
			l.health.found = "fabric: exit 1: a port is down"
		}
		if l.health.found != "" {
			l.health.illAt = l.w.engine.now
		}
		l.w.seen(Event{Kind: Checked, Machine: l.m})
		ended()
		if before != l.health.found {
			l.tellHealth(nil)
		}
		l.repeat()
	})
}

// repeat has a check that failed run again until it passes.
func (l *launcher) repeat() {
	if l.health.found == "" || l.health.again {
		return
	}
	l.health.again = true
	l.afterwards(checkAgain, func() {
		l.health.again = false
		l.check(func() {})
	})
}

// afterwards runs something about the machine, unless it has lost its power by then.
func (l *launcher) afterwards(d time.Duration, do func()) {
	l.w.engine.at(l.w.engine.now.plus(l.m.clock.lasts(d)), action(func() {
		if !l.off {
			do()
		}
	}))
}

// tellHealth tells the agent, if there is one, in answer or unasked.
func (l *launcher) tellHealth(about *messages.Token) {
	if agent := l.m.proc; agent != nil {
		agent.tell(actor.NewPID(l.m.address, actors.NodePath),
			&messages.MachineChecked{Health: l.healthNow(), Token: about})
	}
}
