package sim

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns one simulated machine: its hardware, its boots, and the starts
// of its agent. The disk outlives boots, the launcher outlives agents.

// machine is one worker.
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
	original     *machine // of a clone
	home         uint64   // the epoch that a machine of another cluster obeys there; 0: it is ours
	gone         bool     // for ever
	powered      bool
	returning    bool                    // the agent's next start is on the agenda
	lossy        bool                    // it lost its power or its record: what it knew may be gone
	old          bool                    // what is installed here is the version before
	fibbed       bool                    // its agent has lied, by lies
	repented     instant                 // when it was honest again
	oldUntil     instant                 // when that was so last
	drained      bool                    // by the operator, that may take it back
	lies         []string                // what its agent lies about; none: it is honest
	rages        bool                    // it says anything, beside what its agent says
	raged        bool                    // now or earlier
	lied         bool                    // now or earlier
	intruded     map[topology.Token]bool // attempts that it lied to have a part of
	books        *messages.LedgerReport  // as its agent told of them last
	users        *messages.NodeUsers     // as which accounts it says that it runs jobs; nil: it does not say
	usersSince   instant                 // since when
	earlier      bool                    // its agent is of an earlier version
	unversed     bool                    // its agent is of one that knew no network but that of the machine
	wishes       []func()                // what people want of it, the first of which is being asked
	ails         bool                    // it is not well: its next check finds that
	devicesAt    instant                 // when a device of it broke or was mended last
}

// now reads the machine's monotonic clock.
func (m *machine) now() actors.Instant { return m.clock.read(m.w.engine.now) }

// slices returns the allocations in its agent's ledger; nil while it is down.
func (m *machine) slices() []*topology.Slice {
	if m.proc == nil || m.proc.node == nil {
		return nil
	}
	return m.proc.node.Ledger().Slices()
}

// bootID names the present boot.
func (m *machine) bootID() string { return fmt.Sprintf("%s-boot-%d", m.machineID, m.boot) }

// powerOn boots the machine and starts its agent.
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
	if m.launcher != nil { // a clone's first boot
		broken = m.launcher.faulted
	}
	before := m.launcher
	m.launcher = newLauncher(m.w, m)
	m.launcher.faulted = broken
	m.launcher.inherits(before)
	m.startAgent()
}

// lacksScripts reports whether the agent that is meant is of a version that knows nothing of scripts.
func (m *machine) lacksScripts(to *messages.Incarnation) bool {
	return m.earlier || m.proc.lacks(&messages.JobSpec{Script: &messages.Script{}}) && messages.SameIncarnation(to,
		m.proc.incarnation)
}

// startAgent is one start of the agent: a new incarnation.
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
		// Now and then so soon that what the last one began is still going on.
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

// powerLoss takes the machine down at once; it boots again after a while, or
// never.
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

// clone starts a second machine from a copy of this one's disk: the node's id
// is the same, the machine's is not.
func (m *machine) clone() *machine {
	c := &machine{w: m.w, index: m.index, id: m.id, address: m.address, original: m,
		machineID: fmt.Sprintf("%s%s%d", m.machineID, cloneMark, m.w.processes), announcement: m.announcement, links: m.links}
	c.disk = &disk{w: m.w, content: append([]byte(nil), m.disk.content...)}
	c.powerOn()
	return c
}

// newClock makes a machine's clock: it began at some other time and runs a
// little fast or slow.
func (w *World) newClock() clock {
	var by time.Duration
	return clock{
		began: w.engine.now, base: time.Second + w.chance.between(0, 1000*time.Hour-time.Second),
		ppm: int64(w.chance.span(-w.draw.DriftPPM, w.draw.DriftPPM)), wallBy: &by, exact: w.opts.Prompt,
	}
}
