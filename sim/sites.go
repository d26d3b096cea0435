package sim

import (
	"time"
)

// This file owns the sorts of faults, one function each. 2-protocol in the
// design names them; what a site does is told by its name.

var sites []site

func init() {
	sites = []site{
		{name: "leader-crash", act: leaderCrash},
		{name: "leader-pause", act: leaderPause},
		{name: "leader-cut", needsStandby: true, act: leaderCut},
		{name: "leader-zombie", needsStandby: true, act: leaderZombie},
		{name: "leader-half", act: leaderHalf},
		{name: "leader-trap", act: leaderTrap},
		{name: "actor-break"},
		{name: "store-error", calm: true},
		{name: "store-outage", calm: true, deposes: true, act: storeOutage},
		{name: "store-stall", calm: true, deposes: true, act: storeStall},
		{name: "store-restored", few: 2, act: storeRestored},
		{name: "store-tail", noFile: true, few: 2, act: storeTail},
		{name: "agent-crash", act: agentCrash},
		{name: "agent-trap", act: agentTrap},
		{name: "agent-pause", act: agentPause},
		{name: "power-loss", act: powerLoss},
		{name: "machine-gone", few: 3, act: machineGone},
		{name: "clone", few: 4, act: cloneMachine},
		{name: "partition", act: partition},
		{name: "one-way", act: oneWay},
		{name: "cut-for-ever", few: 2, act: cutForEver},
		{name: "clog", act: clog},
		{name: "flap", act: flap},
		{name: "hostile", act: hostile},
		{name: "disk-error", calm: true, act: diskError},
		{name: "disk-full", calm: true, act: diskFull},
		{name: "disk-stall", calm: true, act: diskStall},
		{name: "disk-torn", act: diskTorn},
		{name: "prepare-fail", calm: true},
		{name: "job-wrong", calm: true},
		{name: "prepare-hang", calm: true},
		{name: "prepared-lost", calm: true},
		{name: "launch-fail", calm: true},
		{name: "oom", calm: true},
		{name: "task-fail", calm: true},
		{name: "task-hang", calm: true},
		{name: "supervisor-lost", calm: true},
		{name: "term-ignored", calm: true},
		{name: "gpu-fault", few: 12, act: gpuFault},
		{name: "gpu-flap", few: 12, act: gpuFlap},
		{name: "clock-jump", calm: true, act: clockJump},
		{name: "drain", calm: true, act: drain},
		{name: "cordon", calm: true, act: cordon},
		{name: "remove", few: 2, act: remove},
		{name: "foreign", few: 2, calm: true, act: foreignMachine},
		{name: "upgrade", rare: true, act: upgrade},
		{name: "slow-pass", calm: true, act: slowPass},
		{name: "slow-leader", act: slowLeader},
		{name: "slow-explain", calm: true, act: slowExplain},
		{name: "slow-agent", act: slowAgent},
		{name: "store-power", needsFile: true, act: storePower},
		{name: "store-full", needsFile: true, calm: true, act: storeFull},
		{name: "store-io", needsFile: true, calm: true, act: storeIO},
		{name: "lease-lost", needsStandby: true, act: leaseLost},
		{name: "lease-late", needsLease: true, act: leaseLate},
		{name: "lease-slow", needsLease: true, act: leaseSlow},
		{name: "liar", few: 3, act: liar},
		{name: "hardware", few: 4, act: hardware},
	}
}

// Sites are the names of all sorts of faults.
func Sites() []string {
	var names []string
	for _, s := range sites {
		names = append(names, s.name)
	}
	return names
}

func leaderCrash(f *faults) bool {
	p := f.w.leader()
	if p == nil {
		return false
	}
	p.crash()
	return true
}

// leaderTrap kills the leader at a random one of the next letters about gangs.
func leaderTrap(f *faults) bool {
	f.w.snare("", 1+f.w.luck.below(60), func() { leaderCrash(f) })
	return true
}

// leaderPause stops the leader. If the stop outlives the lease and somebody
// else is there, it wakes as a leader of the past.
func leaderPause(f *faults) bool {
	p := f.w.leader()
	if p == nil || p.paused {
		return false
	}
	d := f.w.luck.skewed(200*time.Millisecond, min(40*time.Second, 2*f.w.draw.Pace))
	f.w.note(p, "stopped for %s", d)
	f.suspend(p, d)
	return true
}

// suspend is SIGSTOP and, after a while, SIGCONT. Streams that are not served
// for long are closed by the machines.
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

// leaderCut cuts the leader off from the machines and the store. Every other one
// does not notice for a while that its lease is over.
func leaderCut(f *faults) bool {
	p := f.w.leader()
	if p == nil || p.paused {
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

// leaderZombie lets another take over while the leader simply goes on.
func leaderZombie(f *faults) bool {
	p := f.w.leader()
	if p == nil || p.paused {
		return false
	}
	if f.w.usurp(f.w.constants.Lease+f.w.luck.skewed(100*time.Millisecond, 30*time.Second)) == nil {
		return false
	}
	f.w.note(p, "goes on as leader without looking")
	return true
}

// leaderHalf cuts the leader off from a random half of the machines.
func leaderHalf(f *faults) bool {
	p := f.w.leader()
	if p == nil {
		return false
	}
	d := f.w.luck.skewed(time.Second, 90*time.Second)
	f.w.note(p, "cut off from half of the machines for %s", d)
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

func agentCrash(f *faults) bool {
	m := f.busy()
	if m == nil || m.proc == nil {
		return false
	}
	m.proc.crash()
	return true
}

// agentTrap lets an agent die at the next message about a gang that any
// machine gets: right before it, or right after.
func agentTrap(f *faults) bool {
	if f.w.observer == nil {
		return false
	}
	f.w.observer.trap = trapBefore + trap(f.w.luck.below(2))
	f.w.observer.skip = f.w.luck.below(40)
	return true
}

func agentPause(f *faults) bool {
	m := f.busy()
	if m == nil || m.proc == nil || m.proc.paused {
		return false
	}
	f.suspend(m.proc, f.w.luck.skewed(100*time.Millisecond, 40*time.Second))
	return true
}

func powerLoss(f *faults) bool {
	m := f.busy()
	if m == nil {
		return false
	}
	m.powerLoss(f.w.luck.skewed(3*time.Second, time.Minute))
	return true
}

func machineGone(f *faults) bool {
	m := f.busy()
	if m == nil || !f.mayLose("machine-gone") {
		return false
	}
	f.lost++
	f.w.say("%s is gone for ever", m.address)
	m.powerLoss(0)
	return true
}

// cloneMachine starts a copy of a machine from its disk, for a while.
func cloneMachine(f *faults) bool {
	m := f.busy()
	if m == nil || f.w.cloned(m) {
		return false
	}
	c := m.clone()
	f.w.clones = append(f.w.clones, c)
	f.w.note(c.proc, "is a clone")
	f.until(f.w.luck.skewed(2*time.Second, time.Minute), func() { f.w.unclone(c) })
	return true
}

func (w *World) cloned(m *machine) bool {
	for _, c := range w.clones {
		if c.original == m {
			return true
		}
	}
	return false
}

// unclone switches a clone off for good.
func (w *World) unclone(c *machine) {
	c.powerLoss(0)
	for i := range w.clones {
		if w.clones[i] == c {
			w.clones = append(w.clones[:i], w.clones[i+1:]...)
			break
		}
	}
	if m := c.original; m.proc != nil {
		for _, l := range m.links {
			l.dial(m, w.net.between(10*time.Millisecond, time.Second))
		}
	}
}

// strayClocks lets the wall clocks of all machines and schedulers differ from the beginning, where they jump.
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

// takeover lets the next leader's wall clock be an hour ahead of the last one's, or behind it.
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
	// Every other jump is a scheduler's: wall times that matter are written there.
	if f.clocks%2 == 0 {
		*f.w.schedulers[f.w.luck.below(len(f.w.schedulers))].clock.wallBy = by
		return true
	}
	m := f.pick()
	if m == nil {
		return false
	}
	*m.clock.wallBy = by
	return true
}

// drain, cordon and remove are an operator's: the client asks the leader.
func drain(f *faults) bool {
	m := f.pick()
	if m == nil || m.drained {
		return false
	}
	m.drained = true
	d := f.w.luck.skewed(time.Second, time.Minute)
	f.w.client.drain(m, d)
	f.until(d+f.w.luck.between(5*time.Second, f.w.draw.Pace), func() {
		m.drained = false
		f.w.client.uncordon(m)
	})
	return true
}

func cordon(f *faults) bool {
	m := f.pick()
	if m == nil || m.drained {
		return false
	}
	m.drained = true
	f.w.client.cordon(m)
	f.until(f.w.luck.between(5*time.Second, f.w.draw.Pace), func() {
		m.drained = false
		f.w.client.uncordon(m)
	})
	return true
}

// remove takes a machine out for ever: it loses its power, and the operator
// says that it is gone.
func remove(f *faults) bool {
	m := f.busy()
	if m == nil || !f.mayLose("remove") {
		return false
	}
	f.lost++
	m.powerLoss(0)
	f.w.client.remove(m, func() {
		// The leader's work about it may be cut short.
		if f.w.luck.chance(0.5) {
			f.w.engine.after(f.w.luck.between(0, 2*time.Millisecond), func() { leaderCrash(f) })
		}
	})
	return true
}
