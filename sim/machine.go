package sim

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates one node: its hardware, its boots, and the starts of its agent. The disk outlives boots, and the
// launcher outlives agents.

// machine is one simulated node.
type machine struct {
	w            *World
	index        int
	id           topology.NodeID
	address      string
	machineID    string
	announcement *messages.Announcement
	disk         *disk
	launcher     *launcher
	clock        clock
	boot         int
	proc         *process // the agent; nil while it is down
	links        []*link  // one per scheduler, in their order
	original     *machine // the node that a clone copies; nil otherwise
	home         uint64   // the epoch that a node of another cluster obeys; 0: it is ours
	gone         bool     // lost for ever
	powered      bool
	returning    bool                    // the agent's next start is scheduled
	lossy        bool                    // it lost its power or its record, and with it recent state
	old          bool                    // the installed agent is of the previous version
	fibbed       bool                    // its agent has lied by an entry of lies
	repented     instant                 // when it became honest again
	oldUntil     instant                 // when it last ran the previous version
	drained      bool                    // drained by the operator, who may take that back
	lies         []string                // present lies of its agent; empty: it is honest
	rages        bool                    // it sends arbitrary messages in addition to its agent's
	raged        bool                    // now or earlier
	lied         bool                    // now or earlier
	intruded     map[topology.Token]bool // attempts that it falsely claimed to be part of
	books        *messages.LedgerReport  // the ledger that its agent reported last
	users        *messages.NodeUsers     // accounts that it reports for jobs; nil: it reports none
	usersSince   instant                 // when users last changed
	earlier      bool                    // its agent is of an earlier version
	unversed     bool                    // its agent is of a version that knew only the host network
	wishes       []func()                // operators' requests about it; the first one is in progress
	ails         bool                    // it is unhealthy, which its next check will find
	devicesAt    instant                 // when a GPU of it last broke or was repaired
}

// now reads the node's monotonic clock.
func (m *machine) now() actors.Instant { return m.clock.read(m.w.engine.now) }

// slices returns the allocations in its agent's ledger, or nil while the agent is down.
func (m *machine) slices() []*topology.Allocation {
	if m.proc == nil || m.proc.node == nil {
		return nil
	}
	return m.proc.node.Ledger().Allocations()
}

// bootID returns the ID of the current boot.
func (m *machine) bootID() string { return fmt.Sprintf("%s-boot-%d", m.machineID, m.boot) }

// powerOn boots the node and starts its agent.
func (m *machine) powerOn() {
	if m.powered || m.gone {
		return
	}
	m.powered = true
	m.boot++
	wall := m.clock.wallBy
	m.clock = m.w.newClock()
	if wall != nil {
		m.clock.wallBy = wall
	}
	var broken []string
	if m.launcher != nil { // at a clone's first boot it is nil
		broken = m.launcher.faulted
	}
	before := m.launcher
	m.launcher = newLauncher(m.w, m)
	m.launcher.faulted = broken
	m.launcher.inherits(before)
	m.startAgent()
}

// lacksScripts reports whether the addressed agent is of a version without scripts.
func (m *machine) lacksScripts(to *messages.Incarnation) bool {
	return m.earlier || m.proc.lacks(&messages.JobSpec{Script: &messages.Script{}}) && messages.SameIncarnation(to,
		m.proc.incarnation)
}

// startAgent starts the agent in a new incarnation.
func (m *machine) startAgent() {
	m.returning = false
	if m.proc != nil || !m.powered || m.gone {
		return
	}
	p := m.w.newProcess(m.address, m.clock)
	p.machine, p.old = m, m.old
	p.incarnation = &messages.Incarnation{BootId: m.bootID(), StartedNs: int64(p.Now())}
	m.proc = p
	if m.original == nil {
		m.w.endpoints[m.address].proc = p
	}
	m.w.note(p, "started as %s", m.bootID())
	worker.Assemble(worker.Ports{
		Ports: actors.Ports{
			System: p.system, Host: p, Clock: p, Log: p, Constants: m.w.constants,
		},
		Node: m.id, MachineID: m.machineID,
		Incarnation:  p.incarnation,
		Announcement: m.announcement,
		Disk:         &diskPort{m.disk, p}, Launcher: &launcherPort{m.launcher, p},
		Users: func() *messages.NodeUsers { return m.users },
	})
	for _, l := range m.links {
		l.dial(m, m.w.net.between(time.Millisecond, 500*time.Millisecond))
	}
}

// agentGone completes the death of the agent.
func (m *machine) agentGone() {
	p := m.proc
	m.proc = nil
	if m.original == nil {
		m.w.endpoints[m.address].proc = nil
	}
	m.disk.crash()
	for _, l := range m.links {
		switch {
		case l.agent != p:
		case m.powered:
			l.sever() // the kernel closes the socket
			l.notice()
		default:
			l.fallSilent()
		}
	}
	if m.powered {
		// Sometimes the next agent starts while actions of the last one still continue.
		longest := 8 * time.Second
		if m.w.chance.chance(0.3) {
			longest = 40 * time.Millisecond
		}
		m.comeBack(m.w.chance.skewed(time.Millisecond, longest))
	}
}

func (m *machine) comeBack(after time.Duration) {
	if !m.returning {
		m.returning = true
		m.w.engine.after(after, m.startAgent)
	}
}

// powerLoss takes the node down at once. It boots again after a while, or never.
func (m *machine) powerLoss(away time.Duration) {
	if !m.powered {
		return
	}
	m.powered, m.lossy = false, true
	m.launcher.powerOff()
	if m.proc != nil {
		m.proc.crash()
	} else {
		m.disk.crash()
	}
	if away > 0 {
		m.w.engine.after(away, m.powerOn)
	} else {
		m.gone = true
	}
}

// clone starts a second host from a copy of this node's disk. The node ID is the same, and the machine ID differs.
func (m *machine) clone() *machine {
	c := &machine{w: m.w, index: m.index, id: m.id, address: m.address, original: m,
		machineID: fmt.Sprintf("%s%s%d", m.machineID, cloneMark, m.w.processes), announcement: m.announcement, links: m.links}
	c.disk = &disk{w: m.w, content: append([]byte(nil), m.disk.content...)}
	c.powerOn()
	return c
}

// newClock returns a node's clock. It began at a random time and runs a little fast or slow.
func (w *World) newClock() clock {
	var by time.Duration
	return clock{
		began: w.engine.now, base: time.Second + w.chance.between(0, 1000*time.Hour-time.Second),
		ppm: int64(w.chance.span(-w.draw.DriftPPM, w.draw.DriftPPM)), wallBy: &by, exact: w.opts.Prompt,
	}
}
