package topology

// This file owns what leaves a machine before anything begins that is kept there. What is kept is wanted from a moment
// on that is yet to come, and by then some of what runs has left and brought its room back. That much need not be
// free now, so a small job may have it for as long as it likes: it is in nobody's way.
//
// Only what is certain is counted: what ends by its limit before the promise begins, and what the promise must wait
// for whatever anybody expects, because the machine does not hold both. What is merely expected to end is not: if it
// stayed, the small job would take its place in the way of the promise.
//
// The horizon's courses know nothing of it (horizon_course.go): what is promised next is planned beside all that is
// kept, because nobody can tell which of two promises begins first.

// KeepFrom is Keep for a promise that is not expected to begin before an instant.
func (f *Fabric) KeepFrom(id KeepID, p Placement, from int64) { f.changeKeep(id, p.Slots, from) }

// Leaving is how much of a machine has left it before anything begins that is kept there.
func (f *Fabric) Leaving(id NodeID) Resources {
	if s := f.seats[id]; s != nil {
		return s.leaving
	}
	return Resources{}
}

// setLeaving replaces it, as a follower is told.
func (f *Fabric) setLeaving(s *seat, leaving Resources) {
	if s.leaving != leaving {
		f.record(s.id, s)
		s.leaving = leaving
		f.settleAs(s, whatLeft)
	}
}

// leavingOn works it out from what the horizon knows. A copy without a horizon has what it was told. Beliefs may cross:
// a job that is known to end may have left the machine already. So no more leaves than is used beside what stays.
func (f *Fabric) leavingOn(s *seat) (sum Resources) {
	if f.horizon == nil {
		return s.leaving
	}
	l := f.horizon.machines[s.id]
	if l == nil || len(s.kept) == 0 {
		return Resources{}
	}
	var stays Resources
	for rest := l.told; len(rest) > 0; {
		n, all := 0, Resources{}
		for ; n < len(rest) && rest[n].leavesWith(&rest[0]); n++ {
			all = all.Plus(rest[n].Amount)
		}
		leaves := s.leavesFirst(all, rest[0].Hard)
		for _, e := range rest[:n] {
			if share := e.Amount.MilliGPU % WholeGPU; share > 0 { // it comes back on a device of which others may have the rest
				e.Amount.MilliGPU -= share
				stays.MilliGPU += WholeGPU
			}
			if leaves {
				sum = sum.Plus(e.Amount)
			} else {
				stays = stays.Plus(e.Amount)
			}
		}
		rest = rest[n:]
	}
	return sum.upTo(s.used().besides(stays))
}

// used returns the resources of a node that are not free. A device of which a share is taken counts in full.
func (s *seat) used() Resources {
	total := s.machine.Total
	devices := total.MilliGPU/WholeGPU + int64(s.machine.Broken) - int64(s.free.WholeGPUs)
	return total.Minus(Resources{s.free.MilliCPU, s.free.MemoryBytes, total.MilliGPU - devices*WholeGPU})
}

// leavesWith reports whether two ends are of one attempt, all of which leaves at once.
func (e *End) leavesWith(o *End) bool {
	return e == o || e.Of != "" && e.Of == o.Of && e.Hard == o.Hard
}

// leavesFirst reports whether what an attempt has on a machine is back before anything begins that is kept there.
// Devices that are out of service count here: it may be those that it has.
func (s *seat) leavesFirst(has Resources, hard int64) bool {
	total := s.machine.Total
	total.MilliGPU += int64(s.machine.Broken) * WholeGPU
	for i := range s.kept {
		if k := &s.kept[i]; hard > k.from && k.sum().Plus(has).Within(total) {
			return false
		}
	}
	return true
}

func (k *keptFor) sum() (sum Resources) {
	for _, a := range k.amounts {
		sum = sum.Plus(a)
	}
	return sum
}

// relieve takes what leaves from the claims, but no more than is used: a device that is out of service may be among
// those that leave, and does not come back. Shares of devices are claimed in full.
func (k *claims) relieve(leaving, total Resources, free Capacity) {
	devices := total.MilliGPU/WholeGPU - int64(free.WholeGPUs)
	less := func(claim, leaves, used int64) int64 { return max(0, claim-max(0, min(leaves, used))) }
	k.sum.MilliCPU = less(k.sum.MilliCPU, leaving.MilliCPU, total.MilliCPU-free.MilliCPU)
	k.sum.MemoryBytes = less(k.sum.MemoryBytes, leaving.MemoryBytes, total.MemoryBytes-free.MemoryBytes)
	k.sum.MilliGPU = less(k.sum.MilliGPU, leaving.MilliGPU, devices*WholeGPU)
}
