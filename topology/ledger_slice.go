package topology

import (
	"fmt"
	"slices"
)

// This file owns how a slice moves from state to state, and what that does to
// the books. Every step demands the state it starts from: the Node checks first, so a step from another state is a
// broken invariant and panics.

// must finds a slice that must be in one of these states.
func (l *Ledger) must(t Token, verb string, states ...SliceState) *Slice {
	s := l.Slice(t)
	if s == nil {
		panic(fmt.Sprintf("ledger: %s %v: there is no such slice", verb, t))
	}
	if !slices.Contains(states, s.State) {
		panic(fmt.Sprintf("ledger: %s %v: it is %v", verb, t, s.State))
	}
	return s
}

// Commit makes a reservation an allocation; its TTL no longer counts.
func (l *Ledger) Commit(t Token) {
	s := l.must(t, "commit", SliceReserved)
	s.ExpiresAt = 0
	l.move(s, SliceCommitted)
}

// Prepare marks that every rank could start at once.
func (l *Ledger) Prepare(t Token) { l.move(l.must(t, "prepare", SliceCommitted), SlicePrepared) }

// Start marks a slice past the barrier.
func (l *Ledger) Start(t Token) { l.move(l.must(t, "start", SlicePrepared), SliceStarted) }

// Stop marks that a slice is to end; it holds what it has until End.
func (l *Ledger) Stop(t Token) {
	l.move(l.must(t, "stop", SliceCommitted, SlicePrepared, SliceStarted), SliceStopping)
}

// Exit notes the evidence that nothing of a rank runs. It frees nothing: a
// slice's ranks share devices and port, and they go back together, at End.
func (l *Ledger) Exit(t Token, r Rank) {
	s := l.must(t, "exit of", SliceCommitted, SlicePrepared, SliceStarted, SliceStopping)
	i := slices.IndexFunc(s.Grants, func(g Grant) bool { return g.Rank == r })
	if i < 0 || s.Grants[i].Gone {
		panic(fmt.Sprintf("ledger: exit of %v: rank %d is not there or had gone", t, r))
	}
	s.Grants[i].Gone = true
	l.version++
}

// End gives back what a slice held. It is the one place where something
// committed becomes free, and it demands evidence about every rank.
func (l *Ledger) End(t Token) {
	s := l.must(t, "end", SliceCommitted, SlicePrepared, SliceStarted, SliceStopping)
	if !s.AllGone() {
		panic(fmt.Sprintf("ledger: end %v: there are ranks without evidence", t))
	}
	l.vacate(s)
	s.State = SliceOver
	s.amount, s.held = Resources{}, nil
	l.version++
}

// Abort ends a token that was at most reserved, and leaves a tombstone even for an unknown token: its Reserve may still
// be on the way. A forgotten token gets none: it would claim that the token never ran.
func (l *Ledger) Abort(t Token, now int64) {
	if s := l.Slice(t); s != nil {
		l.must(t, "abort", SliceReserved)
		l.vacate(s)
		l.remove(t)
		l.version++
	} else if l.tombs.past(t) == PastForgotten {
		return
	}
	l.tombs.add(t, false, now)
}

// Expire ends every reservation whose time is up and returns their tokens.
func (l *Ledger) Expire(now int64) []Token {
	var over []Token
	for _, s := range l.slices {
		if s.State == SliceReserved && s.ExpiresAt <= now {
			over = append(over, s.Token)
		}
	}
	for _, t := range over {
		l.Abort(t, now)
	}
	return over
}

// NextExpiry is when the earliest reservation ends.
func (l *Ledger) NextExpiry() (at int64, any bool) {
	for _, s := range l.slices {
		if s.State == SliceReserved && (!any || s.ExpiresAt < at) {
			at, any = s.ExpiresAt, true
		}
	}
	return at, any
}

// Forget drops a slice that is over and leaves a tombstone that says it had run.
func (l *Ledger) Forget(t Token, now int64) {
	l.must(t, "forget", SliceOver)
	l.remove(t)
	l.tombs.add(t, true, now)
	l.version++
}

// Past returns the memory of a token without an allocation.
func (l *Ledger) Past(t Token) Past { return l.tombs.past(t) }

func (l *Ledger) insert(s *Slice) {
	i, _ := l.find(s.Token)
	l.slices = slices.Insert(l.slices, i, s)
}

func (l *Ledger) remove(t Token) {
	i, _ := l.find(t)
	l.slices = slices.Delete(l.slices, i, i+1)
}

func (l *Ledger) move(s *Slice, to SliceState) {
	l.post(s, -1)
	s.State = to
	l.post(s, 1)
	l.version++
}

// post adds (sign 1) or removes (sign −1) what a slice holds. Its part of a withdrawn device counts as stopping
// whatever the slice does: the device will not be free when the slice ends.
func (l *Ledger) post(s *Slice, sign int64) {
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

func (l *Ledger) bucket(s SliceState) *Resources {
	switch s {
	case SliceReserved:
		return &l.reserved
	case SliceCommitted, SlicePrepared, SliceStarted:
		return &l.committed
	case SliceStopping:
		return &l.stopping
	default:
		panic(fmt.Sprintf("ledger: nothing is held by a slice that is %v", s))
	}
}

// occupy moves what a slice wants from free to its own.
func (l *Ledger) occupy(s *Slice) {
	l.free.MilliCPU -= s.amount.MilliCPU
	l.free.MemoryBytes -= s.amount.MemoryBytes
	for _, h := range s.held {
		l.use(h.device, h.milli)
	}
	l.post(s, 1)
}

// vacate moves what a slice holds back to free; a part of a withdrawn device
// goes to withdrawn, and what the machine no longer has leaves the books.
func (l *Ledger) vacate(s *Slice) {
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

// shrink gives an amount back, as far as the machine has it.
func shrink(total, free *int64, has, back int64) {
	lost := min(back, *total-has)
	*total -= lost
	*free += back - lost
}
