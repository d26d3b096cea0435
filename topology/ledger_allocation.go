package topology

import (
	"fmt"
	"slices"
)

// This file has the state changes of allocations and their effect on the sums. Each change requires a certain state.
// The Node checks the state first, so another state is a broken invariant and causes a panic.

// must returns the allocation of a token and panics unless it is in one of these states.
func (l *Ledger) must(t Token, verb string, states ...AllocationState) *Allocation {
	s := l.Allocation(t)
	if s == nil {
		panic(fmt.Sprintf("ledger: %s %v: unknown allocation", verb, t))
	}
	if !slices.Contains(states, s.State) {
		panic(fmt.Sprintf("ledger: %s %v: state is %v", verb, t, s.State))
	}
	return s
}

// Commit turns a reservation into an allocation without a TTL.
func (l *Ledger) Commit(t Token) {
	s := l.must(t, "commit", AllocationReserved)
	s.ExpiresAt = 0
	l.move(s, AllocationCommitted)
}

// Prepare records that every rank is ready to start.
func (l *Ledger) Prepare(t Token) {
	l.move(l.must(t, "prepare", AllocationCommitted), AllocationPrepared)
}

// Start records that the gang has passed its barrier.
func (l *Ledger) Start(t Token) { l.move(l.must(t, "start", AllocationPrepared), AllocationStarted) }

// Stop records that an allocation is being stopped. It holds its resources until End.
func (l *Ledger) Stop(t Token) {
	l.move(l.must(t, "stop", AllocationCommitted, AllocationPrepared, AllocationStarted), AllocationStopping)
}

// Exit records the confirmed exit of a rank. It frees nothing, because the ranks of an allocation share devices and
// port, which become free together at End.
func (l *Ledger) Exit(t Token, r Rank) {
	s := l.must(t, "exit of", AllocationCommitted, AllocationPrepared, AllocationStarted, AllocationStopping)
	i := slices.IndexFunc(s.Grants, func(g Grant) bool { return g.Rank == r })
	if i < 0 || s.Grants[i].Gone {
		panic(fmt.Sprintf("ledger: exit of %v: rank %d is unknown or has already ended", t, r))
	}
	s.Grants[i].Gone = true
	l.version++
}

// End frees the resources of an allocation. It is the only function that frees committed resources, and it requires the
// confirmed exit of every rank.
func (l *Ledger) End(t Token) {
	s := l.must(t, "end", AllocationCommitted, AllocationPrepared, AllocationStarted, AllocationStopping)
	if !s.AllGone() {
		panic(fmt.Sprintf("ledger: end %v: not all exits are confirmed", t))
	}
	l.vacate(s)
	s.State = AllocationEnded
	s.amount, s.held = Resources{}, nil
	l.version++
}

// Renew gives an allocation whose ranks have all ended another rendezvous port, for its heir. A late packet for the old
// port then reaches no task. If no other port is free, the allocation keeps its port.
func (l *Ledger) Renew(t Token) {
	s := l.must(t, "renew", AllocationStopping)
	if s.Port == 0 {
		return
	}
	if port := l.ports.next(l.slices); port != 0 {
		s.Port = port
		l.version++
	}
}

// Inherit passes the resources of an allocation whose ranks have all ended to the next attempt of its job, which is
// committed from then on. The ended allocation leaves a tombstone. Nothing becomes free in between.
func (l *Ledger) Inherit(from, heir Token, now int64) *Allocation {
	s := l.must(from, "inherit", AllocationStopping)
	if !s.AllGone() || l.tombs.past(heir).Over() || l.Allocation(heir) != nil {
		panic(fmt.Sprintf("ledger: %v inherits from %v: not all exits are confirmed, or the heir is not new", heir, from))
	}
	l.post(s, -1)
	l.remove(from)
	l.tombs.add(from, true, now)
	own := &Allocation{Token: heir, Job: s.Job, State: AllocationCommitted, Port: s.Port, amount: s.amount, held: s.held}
	own.Grants = slices.Clone(s.Grants)
	for i := range own.Grants {
		own.Grants[i].Gone = false
	}
	l.insert(own)
	l.post(own, 1)
	l.version++
	return own
}

// Abort ends a token that was at most reserved. It also leaves a tombstone for an unknown token, because its Reserve
// may still arrive. A token below the tombstones' floor gets none, because a tombstone would wrongly say that the token
// never ran.
func (l *Ledger) Abort(t Token, now int64) {
	if s := l.Allocation(t); s != nil {
		l.must(t, "abort", AllocationReserved)
		l.vacate(s)
		l.remove(t)
		l.version++
	} else if l.tombs.past(t) == PastForgotten {
		return
	}
	l.tombs.add(t, false, now)
}

// Expire ends all reservations whose TTL has passed, and returns their tokens.
func (l *Ledger) Expire(now int64) []Token {
	var over []Token
	for _, s := range l.slices {
		if s.State == AllocationReserved && s.ExpiresAt <= now {
			over = append(over, s.Token)
		}
	}
	for _, t := range over {
		l.Abort(t, now)
	}
	return over
}

// NextExpiry returns the earliest end of a reservation.
func (l *Ledger) NextExpiry() (at int64, any bool) {
	for _, s := range l.slices {
		if s.State == AllocationReserved && (!any || s.ExpiresAt < at) {
			at, any = s.ExpiresAt, true
		}
	}
	return at, any
}

// Forget removes an ended allocation, and leaves a tombstone which records that it ran.
func (l *Ledger) Forget(t Token, now int64) {
	l.must(t, "forget", AllocationEnded)
	l.remove(t)
	l.tombs.add(t, true, now)
	l.version++
}

// Past returns the memory of a token without an allocation.
func (l *Ledger) Past(t Token) Past { return l.tombs.past(t) }

func (l *Ledger) insert(s *Allocation) {
	i, _ := l.find(s.Token)
	l.slices = slices.Insert(l.slices, i, s)
}

func (l *Ledger) remove(t Token) {
	i, _ := l.find(t)
	l.slices = slices.Delete(l.slices, i, i+1)
}

func (l *Ledger) move(s *Allocation, to AllocationState) {
	l.post(s, -1)
	s.State = to
	l.post(s, 1)
	l.version++
}

// post adds (sign 1) or subtracts (sign −1) the resources of an allocation. A part of a withdrawn device counts as
// stopping in every state, because the device will not be free when the allocation ends.
func (l *Ledger) post(s *Allocation, sign int64) {
	own := s.amount.times(sign)
	for _, h := range s.held {
		if l.devices[h.device].withdrawn {
			own.MilliGPU -= sign * h.milli
			l.stopping.MilliGPU += sign * h.milli
		}
	}
	b := l.bucket(s.State)
	*b = b.Plus(own)
}

func (l *Ledger) bucket(s AllocationState) *Resources {
	switch s {
	case AllocationReserved:
		return &l.reserved
	case AllocationCommitted, AllocationPrepared, AllocationStarted:
		return &l.committed
	case AllocationStopping:
		return &l.stopping
	default:
		panic(fmt.Sprintf("ledger: an allocation in state %v holds nothing", s))
	}
}

// occupy moves the resources of an allocation from free to its state.
func (l *Ledger) occupy(s *Allocation) {
	l.free.MilliCPU -= s.amount.MilliCPU
	l.free.MemoryBytes -= s.amount.MemoryBytes
	for _, h := range s.held {
		l.use(h.device, h.milli)
	}
	l.post(s, 1)
}

// vacate moves the resources of an allocation back to free. A part of a withdrawn device moves to withdrawn. Resources
// that the node no longer has are removed from the total.
func (l *Ledger) vacate(s *Allocation) {
	l.post(s, -1)
	for _, h := range s.held {
		l.use(h.device, -h.milli)
	}
	shrink(&l.total.MilliCPU, &l.free.MilliCPU, l.has.MilliCPU, s.amount.MilliCPU)
	shrink(&l.total.MemoryBytes, &l.free.MemoryBytes, l.has.MemoryBytes, s.amount.MemoryBytes)
}

func (l *Ledger) use(device int, milli int64) {
	d := &l.devices[device]
	d.used += milli
	if d.withdrawn {
		l.withdrawn.MilliGPU -= milli
	} else {
		l.free.MilliGPU -= milli
	}
}

// shrink frees an amount, as far as the node still has it.
func shrink(total, free *int64, has, back int64) {
	lost := min(back, *total-has)
	*total -= lost
	*free += back - lost
}
