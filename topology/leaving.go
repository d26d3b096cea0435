package topology

// This file computes the amount that leaves a node before its reservations begin. A reservation needs its capacity only
// from its expected start on. Until then, some running attempts end and free their capacity. That amount need not be
// free now, so a small job without a time limit may use it without delaying the reservation.
//
// Only certain ends count. They belong to attempts whose time limit ends before the reservation begins, and to attempts
// that the reservation must wait for because the node cannot hold both. Estimated ends do not count. If such an attempt
// ran longer, the backfilled job would delay the reservation.
//
// The courses of the horizon ignore this amount (horizon_course.go). A further reservation is planned next to all
// existing ones, because the order of their starts is not known.

// KeepFrom reserves capacity like Keep, for a promise that is not expected to begin before a time.
func (f *Tree) KeepFrom(id KeepID, p Placement, from int64) { f.changeKeep(id, p.Slots, from) }

// Leaving returns the amount that leaves a node before any of its reservations begins.
func (f *Tree) Leaving(id NodeID) Resources {
	if s := f.seats[id]; s != nil {
		return s.leaving
	}
	return Resources{}
}

// setLeaving replaces the leaving amount of a node, also in a follower.
func (f *Tree) setLeaving(s *seat, leaving Resources) {
	if s.leaving != leaving {
		f.record(s.id, s)
		s.leaving = leaving
		f.settleAs(s, whatLeft)
	}
}

// leavingOn computes the leaving amount from the horizon. A copy without a horizon keeps the value from its last
// update. The data may be inconsistent for a while: a job with a known end may already have left the node. The result
// is therefore limited to the used capacity minus the part that stays.
func (f *Tree) leavingOn(s *seat) (sum Resources) {
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
			// It returns on a device whose other parts may be in use.
			if share := e.Amount.MilliGPU % WholeGPU; share > 0 {
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

// leavesWith reports whether two ends belong to one attempt, which leaves completely at once.
func (e *End) leavesWith(o *End) bool {
	return e == o || e.Of != "" && e.Of == o.Of && e.Hard == o.Hard
}

// leavesFirst reports whether the resources of an attempt on a node are free before any reservation of that node
// begins. Devices out of service count as available, because the attempt may hold exactly these.
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

// relieve reduces the claims by the leaving amount, but at most by the used amount. A leaving device that is out of
// service does not become free. Shares of devices are always claimed in full.
func (k *claims) relieve(leaving, total Resources, free Capacity) {
	devices := total.MilliGPU/WholeGPU - int64(free.WholeGPUs)
	less := func(claim, leaves, used int64) int64 { return max(0, claim-max(0, min(leaves, used))) }
	k.sum.MilliCPU = less(k.sum.MilliCPU, leaving.MilliCPU, total.MilliCPU-free.MilliCPU)
	k.sum.MemoryBytes = less(k.sum.MemoryBytes, leaving.MemoryBytes, total.MemoryBytes-free.MemoryBytes)
	k.sum.MilliGPU = less(k.sum.MilliGPU, leaving.MilliGPU, devices*WholeGPU)
}
