package sim

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates health checks of a node. The true state of the node and the finding of the last check are
// separate. A node has checks if nodes may become unhealthy in the run. Otherwise nothing is checked, and no agent
// waits.

// health holds a launcher's knowledge of its node's health. Defects of the node outlive boots.
type health struct {
	found   string  // finding of the last check that ended; empty: healthy
	pending bool    // the check at the agent's start has not ended
	again   bool    // a failed check is being repeated
	illAt   instant // when a check last failed
	// lookedFor holds the attempts whose checks before work have ended.
	lookedFor map[topology.Token]bool
}

const (
	checkLasts = 2 * time.Second // longest check that does not hang
	checkHangs = 5 * time.Second // time after which a hanging check is killed
	checkAgain = 5 * time.Second
)

// unhealthy makes a node unhealthy for a while. Its next check detects that.
func unhealthy(f *faults, m *machine) bool {
	if m.ails {
		return false
	}
	m.ails = true
	d := f.w.luck.skewed(time.Second, f.w.draw.Pace)
	f.w.say("%s is unhealthy for %s", m.address, d)
	f.until(d, func() { m.ails = false })
	return true
}

// healthNow returns the launcher's report of its node's health, or nil if the node has no checks.
func (l *launcher) healthNow() *messages.MachineHealth {
	if !l.w.draw.Checks {
		return nil
	}
	return &messages.MachineHealth{Unwell: l.health.found, Pending: l.health.pending, BeforeWork: true, AfterFailure: true}
}

// joins starts the checks at an agent's start.
func (l *launcher) joins() {
	if l.w.draw.Checks {
		l.health.pending = true
		l.check(func() { l.health.pending = false; l.tellHealth(nil) })
	}
}

// onCheck runs the checks before work or after a failure.
func (l *launcher) onCheck(c *messages.CheckMachine) {
	l.check(func() {
		if c.Token != nil {
			l.health.lookedFor[messages.FromToken(c.Token)] = true
		}
		l.tellHealth(c.Token)
	})
}

// fit reports whether a node is healthy according to its last check.
func (l *launcher) fit() bool { return l.health.found == "" && !l.health.pending }

// check runs one check, which finds the state at its end. Sometimes the check hangs until it is killed, which counts as
// a failure.
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

// repeat runs a failed check again until it passes.
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

// afterwards calls do after a delay, unless the node has lost its power by then.
func (l *launcher) afterwards(d time.Duration, do func()) {
	l.w.engine.at(l.w.engine.now.plus(l.m.clock.lasts(d)), action(func() {
		if !l.off {
			do()
		}
	}))
}

// tellHealth reports the health to the agent, if there is one, as an answer or unasked.
func (l *launcher) tellHealth(about *messages.Token) {
	if agent := l.m.proc; agent != nil {
		agent.tell(actor.NewPID(l.m.address, actors.NodePath),
			&messages.MachineChecked{Health: l.healthNow(), Token: about})
	}
}
