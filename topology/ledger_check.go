package topology

import (
	"errors"
	"fmt"
)

// This file verifies the ledger. It computes all sums again from the allocations and compares them with the stored
// sums.

// The invariants that a ledger alone can violate.
var (
	errOneOwner     = errors.New("S1 one-owner")
	errBooksBalance = errors.New("S2 books-balance")
)

// Check returns an error if the ledger is inconsistent.
func (l *Ledger) Check() error {
	l.clearTally()
	var reserved, committed, stopping Resources
	for i, s := range l.slices {
		if i > 0 && !l.slices[i-1].Token.Less(s.Token) {
			return fmt.Errorf("%w: allocations are out of order at %v", errBooksBalance, s.Token)
		}
		if err := l.checkAllocation(s); err != nil {
			return err
		}
		if !s.Holds() {
			continue
		}
		b := &committed
		switch s.State {
		case AllocationReserved:
			b = &reserved
		case AllocationStopping:
			b = &stopping
		}
		*b = b.Plus(s.amount)
		for _, h := range s.held {
			l.tally[h.device] += h.milli
			if l.devices[h.device].withdrawn {
				b.MilliGPU -= h.milli
				stopping.MilliGPU += h.milli
			}
		}
	}
	if reserved != l.reserved || committed != l.committed || stopping != l.stopping {
		return fmt.Errorf("%w: allocations hold %v %v %v, but the sums are %v %v %v", errBooksBalance,
			reserved, committed, stopping, l.reserved, l.committed, l.stopping)
	}
	if err := l.checkDevices(); err != nil {
		return err
	}
	return l.checkSums()
}

func (l *Ledger) clearTally() {
	if len(l.tally) != len(l.devices) {
		l.tally = make([]int64, len(l.devices))
	}
	clear(l.tally)
}

// checkAllocation compares the grants of an allocation with the resources that it holds.
func (l *Ledger) checkAllocation(s *Allocation) error {
	if !s.Holds() {
		if len(s.held) > 0 || !s.amount.IsZero() || !s.AllGone() {
			return fmt.Errorf("%w: %v has ended but holds resources", errBooksBalance, s.Token)
		}
		return nil
	}
	var sum Resources
	shares := 0
	for i := range s.Grants {
		g := &s.Grants[i]
		if i > 0 && s.Grants[i-1].Rank >= g.Rank {
			return fmt.Errorf("%w: ranks of %v are not unique", errOneOwner, s.Token)
		}
		var milli int64
		for j := range g.GPUs {
			milli += g.GPUs[j].Milli
		}
		if milli != g.Amount.MilliGPU {
			return fmt.Errorf("%w: rank %d of %v has %d of %d milli-GPU", errBooksBalance, g.Rank, s.Token, milli,
				g.Amount.MilliGPU)
		}
		shares += len(g.GPUs)
		sum = sum.Plus(g.Amount)
	}
	if sum != s.amount || shares != len(s.held) {
		return fmt.Errorf("%w: %v holds %v but was granted %v", errBooksBalance, s.Token, s.amount, sum)
	}
	for _, o := range l.slices {
		if o == s {
			break
		}
		if s.Port != 0 && o.Port == s.Port && o.Holds() {
			return fmt.Errorf("%w: port %d belongs to %v and %v", errOneOwner, s.Port, o.Token, s.Token)
		}
	}
	return nil
}

// checkDevices compares the state of each device with the allocations and with its size.
func (l *Ledger) checkDevices() error {
	var free, withdrawn int64
	for i := range l.devices {
		d := &l.devices[i]
		if d.used > WholeGPU || d.used < 0 || d.used != l.tally[i] {
			return fmt.Errorf("%w: %d milli-GPU of %s are in use, but allocations hold %d", errOneOwner,
				d.used, d.gpu.ID, l.tally[i])
		}
		if d.withdrawn {
			withdrawn += WholeGPU - d.used
		} else {
			free += WholeGPU - d.used
		}
	}
	if free != l.free.MilliGPU || withdrawn != l.withdrawn.MilliGPU {
		return fmt.Errorf("%w: devices have %d free and %d withdrawn, but the sums are %d and %d", errBooksBalance,
			free, withdrawn, l.free.MilliGPU, l.withdrawn.MilliGPU)
	}
	return nil
}

func (l *Ledger) checkSums() error {
	b := l.Books()
	sum := b.Free.Plus(b.Reserved).Plus(b.Committed).Plus(b.Stopping).Plus(b.Withdrawn)
	if sum != b.Total || b.Total.MilliGPU != WholeGPU*int64(len(l.devices)) {
		return fmt.Errorf("%w: %+v adds up to %v", errBooksBalance, b, sum)
	}
	for _, r := range [...]Resources{b.Free, b.Reserved, b.Committed, b.Stopping, b.Withdrawn} {
		if r.IsNegative() {
			return fmt.Errorf("%w: %+v has a negative amount", errBooksBalance, b)
		}
	}
	return nil
}
