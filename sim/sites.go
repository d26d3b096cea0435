package sim

import (
	"slices"
	"time"
)

// This file defines the kinds of faults, one function each. The name of a site tells what it does.

var sites []site

func init() {
	sites = []site{
		{name: "leader-crash", act: ofLeader(leaderCrash)},
		{name: "leader-pause", act: ofLeader(leaderPause)},
		{name: "leader-cut", needsStandby: true, act: ofLeader(leaderCut)},
		{name: "leader-zombie", needsStandby: true, act: ofLeader(leaderZombie)},
		{name: "leader-half", act: ofLeader(leaderHalf)},
		{name: "leader-trap", act: leaderTrap},
		{name: "actor-break"},
		{name: "store-error", calm: true},
		{name: "store-outage", calm: true, deposes: true, act: storeOutage},
		{name: "store-stall", calm: true, deposes: true, act: storeStall},
		{name: "store-restored", few: 2, act: storeRestored},
		{name: "store-tail", noFile: true, few: 2, act: storeTail},
		{name: "agent-crash", act: atWork(agentCrash)},
		{name: "agent-trap", act: agentTrap},
		{name: "agent-pause", act: atWork(agentPause)},
		{name: "power-loss", act: atWork(powerLoss)},
		{name: "machine-gone", few: 3, act: atWork(machineGone)},
		{name: "clone", few: 4, act: atWork(cloneMachine)},
		{name: "partition", act: partition},
		{name: "one-way", act: oneWay},
		{name: "cut-for-ever", few: 2, act: atWork(cutForEver)},
		{name: "clog", act: atWork(clog)},
		{name: "flap", act: atWork(flap)},
		{name: "hostile", act: hostile},
		{name: "disk-error", calm: true, act: atWork(diskError)},
		{name: "disk-full", calm: true, act: atWork(diskFull)},
		{name: "disk-stall", calm: true, act: atWork(diskStall)},
		{name: "disk-torn", act: atWork(diskTorn)},
		{name: "prepare-fail", calm: true},
		{name: "job-wrong", calm: true},
		{name: "prepare-hang", calm: true},
		{name: "prepared-lost", calm: true},
		{name: "launch-fail", calm: true},
		{name: "launch-wrong", calm: true},
		{name: "oom", calm: true},
		{name: "task-fail", calm: true},
		{name: "task-hang", calm: true},
		{name: "supervisor-lost", calm: true},
		{name: "term-ignored", calm: true},
		{name: "gpu-fault", few: 12, act: atWork(gpuFault)},
		{name: "gpu-flap", few: 12, act: atWork(gpuFlap)},
		{name: "clock-jump", calm: true, act: clockJump},
		{name: "drain", calm: true, act: anywhere(drain)},
		{name: "cordon", calm: true, act: anywhere(cordon)},
		{name: "remove", few: 2, act: atWork(remove)},
		{name: "foreign", few: 2, calm: true, act: ofLeader(foreignMachine)},
		{name: "upgrade", rare: true, act: upgrade},
		{name: "slow-pass", calm: true, act: slowPass},
		{name: "slow-leader", act: slowLeader},
		{name: "slow-explain", calm: true, act: slowExplain},
		{name: "slow-agent", act: atWork(slowAgent)},
		{name: "store-power", needsFile: true, act: storePower},
		{name: "store-full", needsFile: true, calm: true, act: storeFull},
		{name: "store-io", needsFile: true, calm: true, act: storeIO},
		{name: "lease-lost", needsStandby: true, act: ofLeader(leaseLost)},
		{name: "lease-late", needsLease: true, act: ofLeader(leaseLate)},
		{name: "lease-slow", needsLease: true, act: leaseSlow},
		{name: "liar", few: 3, act: atWork(liar)},
		{name: "hardware", few: 4, act: atWork(hardware)},
		{name: "byzantine", few: 2, act: atWork(byzantine)},
		{name: "unwell", calm: true, apart: true, act: atWork(unhealthy)},
		{name: "start-stop", apart: true, byGangs: true},
		{name: "unkillable", apart: true},
		{name: "starved", calm: true, apart: true, act: atWork(starve)},
		{name: "unreadable", noFile: true, rare: true, apart: true, few: 3, act: recordUnreadable},
	}
}

// ofLeader turns a fault of a leader into a site, which strikes if there is a leader.
func ofLeader(act func(*faults, *process) bool) func(*faults) bool {
	return func(f *faults) bool {
		p := f.w.leader()
		return p != nil && act(f, p)
	}
}

// atWork turns a fault of a node into a site. It strikes a node with work if chance finds one, and otherwise any node
// with power.
func atWork(act func(*faults, *machine) bool) func(*faults) bool {
	return func(f *faults) bool {
		m := f.busy()
		return m != nil && act(f, m)
	}
}

func anywhere(act func(*faults, *machine) bool) func(*faults) bool {
	return func(f *faults) bool {
		m := f.pick()
		return m != nil && act(f, m)
	}
}

// Sites returns the names of all kinds of faults.
func Sites() []string {
	var names []string
	for _, s := range sites {
		names = append(names, s.name)
	}
	return names
}

func leaderCrash(f *faults, p *process) bool {
	p.crash()
	return true
}

// leaderTrap kills the leader at a random one of the next messages about gangs.
func leaderTrap(f *faults) bool {
	f.w.snare("", 1+f.w.luck.below(60), func() { ofLeader(leaderCrash)(f) })
	return true
}

// leaderPause stops the leader. If the stop outlives the lease and a standby exists, the process wakes as a deposed
// leader.
func leaderPause(f *faults, p *process) bool {
	if p.paused {
		return false
	}
	d := f.w.luck.skewed(200*time.Millisecond, min(40*time.Second, 2*f.w.draw.Pace))
	f.w.note(p, "stopped for %s", d)
	f.suspend(p, d)
	return true
}

// suspend sends SIGSTOP and, after a while, SIGCONT. Nodes close streams that are not served for long.
func (f *faults) suspend(p *process, d time.Duration) {
	p.pause()
	f.w.engine.after(keepaliveMax, func() {
		if p.paused && !p.dead && p.host != nil {
			for _, m := range f.w.machines {
				if l := m.links[p.host.index]; l.peer == p {
					l.breakOff()
				}
			}
		}
	})
	f.until(d, func() {
		if !p.dead {
			p.proceed()
		}
	})
}

// leaderCut cuts the leader off from the nodes and the store. Every other time the leader does not notice for a while
// that its lease has ended.
func leaderCut(f *faults, p *process) bool {
	if p.paused {
		return false
	}
	host, d := p.host, f.w.luck.skewed(time.Second, min(time.Minute, 2*f.w.draw.Pace))
	f.w.note(p, "cut off for %s", d)
	host.cut++
	for _, m := range f.w.machines {
		f.block(m.links[host.index], towardMachine, d)
		f.block(m.links[host.index], towardScheduler, d)
	}
	f.until(d, func() { host.cut-- })
	if p.campaign != nil && f.w.luck.chance(0.5) {
		f.starve(p.campaign, d+f.w.luck.skewed(100*time.Millisecond, 30*time.Second))
	}
	return true
}

// leaderZombie lets another scheduler take over while the leader continues.
func leaderZombie(f *faults, p *process) bool {
	if p.paused {
		return false
	}
	if f.w.usurp(f.w.constants.Lease+f.w.luck.skewed(100*time.Millisecond, 30*time.Second)) == nil {
		return false
	}
	f.w.note(p, "continues as leader without looking at its lease")
	return true
}

// leaderHalf cuts the leader off from a random half of the nodes.
func leaderHalf(f *faults, p *process) bool {
	d := f.w.luck.skewed(time.Second, 90*time.Second)
	f.w.note(p, "cut off from half of the nodes for %s", d)
	for _, m := range f.w.machines {
		if f.w.luck.chance(0.5) {
			f.block(m.links[p.host.index], towardMachine, d)
			f.block(m.links[p.host.index], towardScheduler, d)
		}
	}
	return true
}

func storeOutage(f *faults) bool {
	if f.w.store.outage > 0 {
		return false
	}
	d := f.w.luck.skewed(time.Second, min(10*time.Minute, 2*f.w.draw.Pace))
	f.w.say("store away for %s", d)
	f.w.store.outage++
	f.until(d, func() { f.w.store.outage-- })
	return true
}

func storeStall(f *faults) bool {
	if f.w.store.stalled > f.w.engine.now {
		return false
	}
	d := f.w.luck.skewed(100*time.Millisecond, min(40*time.Second, 2*f.w.draw.Pace))
	f.w.say("store stalls for %s", d)
	f.w.store.stalled = f.w.engine.now.plus(d)
	f.until(d, f.w.store.proceed)
	return true
}

func agentCrash(f *faults, m *machine) bool {
	if m.proc == nil {
		return false
	}
	m.proc.crash()
	return true
}

// agentTrap kills an agent at the next message about a gang that any node gets, right before or right after it.
func agentTrap(f *faults) bool {
	if f.w.observer == nil {
		return false
	}
	f.w.observer.trap = trapBefore + trap(f.w.luck.below(2))
	f.w.observer.skip = f.w.luck.below(40)
	return true
}

func agentPause(f *faults, m *machine) bool {
	if m.proc == nil || m.proc.paused {
		return false
	}
	f.suspend(m.proc, f.w.luck.skewed(100*time.Millisecond, 40*time.Second))
	return true
}

func powerLoss(f *faults, m *machine) bool {
	m.powerLoss(f.w.luck.skewed(3*time.Second, time.Minute))
	return true
}

func machineGone(f *faults, m *machine) bool {
	if !f.mayLose("machine-gone") {
		return false
	}
	f.lost++
	f.w.say("%s is lost for ever", m.address)
	m.powerLoss(0)
	return true
}

// cloneMachine starts a copy of a node from its disk, for a while.
func cloneMachine(f *faults, m *machine) bool {
	if f.w.cloned(m) {
		return false
	}
	c := m.clone()
	f.w.clones = append(f.w.clones, c)
	f.w.note(c.proc, "is a clone")
	f.until(f.w.luck.skewed(2*time.Second, time.Minute), func() { f.w.unclone(c) })
	return true
}

func (w *World) cloned(m *machine) bool {
	return slices.ContainsFunc(w.clones, func(c *machine) bool { return c.original == m })
}

// unclone switches a clone off for good. If the clone replaced the node because the node's record was unreadable, the
// operator removes the clone.
func (w *World) unclone(c *machine) {
	c.powerLoss(0)
	w.clones = slices.DeleteFunc(w.clones, func(o *machine) bool { return o == c })
	if w.displaced(c.original) {
		w.client.remove(c.original)
	}
	if m := c.original; m.proc != nil {
		for _, l := range m.links {
			l.dial(m, w.net.between(10*time.Millisecond, time.Second))
		}
	}
}

// strayClocks offsets the wall clocks of all nodes and schedulers from the beginning, if clocks jump in the run.
func (f *faults) strayClocks() {
	if f.byName["clock-jump"] == nil {
		return
	}
	for _, h := range f.w.schedulers {
		*h.clock.wallBy = f.w.luck.between(0, 2*time.Hour) - time.Hour
	}
	for _, m := range f.w.machines {
		*m.clock.wallBy = f.w.luck.between(0, 2*time.Hour) - time.Hour
	}
}

// takeover sets the next leader's wall clock an hour ahead of the last leader's, or behind it.
func (f *faults) takeover(next *schedulerHost) {
	last := f.wall
	f.wall = next.clock.wallBy
	if f.byName["clock-jump"] == nil || last == nil || f.w.healed {
		return
	}
	*next.clock.wallBy = *last + time.Hour
	if f.w.luck.chance(0.5) {
		*next.clock.wallBy = *last - time.Hour
	}
}

func clockJump(f *faults) bool {
	by := f.w.luck.between(0, 2*time.Hour) - time.Hour
	f.clocks++
	// Every other jump is a scheduler's, because schedulers write the wall times that matter.
	if f.clocks%2 == 0 {
		h := f.w.schedulers[f.w.luck.below(len(f.w.schedulers))]
		h.wallWas, h.jumped = *h.clock.wallBy, f.w.engine.now
		*h.clock.wallBy = by
		return true
	}
	m := f.pick()
	if m == nil {
		return false
	}
	*m.clock.wallBy = by
	return true
}

// drain, cordon and remove act as an operator: the client sends requests to the leader.
func drain(f *faults, m *machine) bool {
	if m.drained {
		return false
	}
	d := f.w.luck.skewed(time.Second, time.Minute)
	if d%2 == 0 { // some operators announce it before
		ahead := 2*d + 20*time.Second
		f.w.client.closes(m, f.w.momentIn(ahead), d)
		f.reopens(m, ahead+d)
		return true
	}
	f.w.client.drain(m, d)
	f.reopens(m, d)
	return true
}

// reopens makes the operator open a node again after a while.
func (f *faults) reopens(m *machine, after time.Duration) {
	m.drained = true
	f.until(after+f.w.luck.between(5*time.Second, f.w.draw.Pace), func() {
		m.drained = false
		f.w.client.uncordon(m)
	})
}

func cordon(f *faults, m *machine) bool {
	if m.drained {
		return false
	}
	f.w.client.cordon(m)
	f.reopens(m, 0)
	return true
}

// remove takes a node out for ever. The node loses its power, and the operator removes it.
func remove(f *faults, m *machine) bool {
	if !f.mayLose("remove") {
		return false
	}
	f.lost++
	m.powerLoss(0)
	f.w.client.remove(m, func() {
		// A crash may interrupt the leader's work on the removal.
		if f.w.luck.chance(0.5) {
			f.w.engine.after(f.w.luck.between(0, 2*time.Millisecond), func() { ofLeader(leaderCrash)(f) })
		}
	})
	return true
}
