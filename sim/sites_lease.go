package sim

import "time"

// This file defines the faults of the leader's lease.

// leaseLost ends a lease early, as when the database's clock jumps. Another scheduler leads while the last leader still
// believes that it leads.
func leaseLost(f *faults, p *process) bool {
	if p.campaign == nil || f.w.store.row.until <= f.w.engine.now {
		return false
	}
	f.w.say("the lease of %s is lost", p.address)
	f.w.store.row.lose(f.w.engine.now, f.w.store.kept.Epoch())
	return true
}

// leaseLate keeps the leader from renewing in time, or from noticing that it did not.
func leaseLate(f *faults, p *process) bool {
	if p.campaign == nil || p.campaign.starved > 0 {
		return false
	}
	f.starve(p.campaign, f.w.luck.skewed(100*time.Millisecond, 2*f.w.constants.Lease))
	return true
}

// leaseSlow delays the database's answers about the lease, for all schedulers or for the leader alone. A request may be
// executed long after its sender stopped waiting.
func leaseSlow(f *faults) bool {
	p := f.w.leader()
	if f.w.draw.Alone || p == nil || f.w.store.row.slow > f.w.engine.now {
		return false
	}
	f.w.store.row.whose = p.host
	if f.w.luck.chance(0.25) {
		f.w.store.row.whose = nil
	}
	d := f.w.luck.skewed(f.w.constants.Lease, min(time.Minute, 2*f.w.draw.Pace))
	f.w.say("the lease is slow for %s", d)
	f.w.store.row.slow = f.w.engine.now.plus(d)
	f.until(d, func() { f.w.store.row.slow = f.w.engine.now })
	return true
}
