package topology

import (
	"errors"
	"fmt"
	"slices"
)

// This file handles changes of the node itself: faulty or missing devices, and allocations that are read from disk at
// the agent's start, perhaps after the node has lost resources.

// Withdraw takes a device out of service. The part that an allocation holds stays with it until it ends, and counts as
// stopping. Withdraw reports whether anything changed.
func (l *Ledger) Withdraw(id GPUID) bool {
	i := l.device(id)
	if i < 0 || l.devices[i].withdrawn {
		return false
	}
	l.turn(i, true)
	return true
}

// Restore returns a withdrawn device to service, if the node still has it.
func (l *Ledger) Restore(id GPUID) bool {
	i := l.device(id)
	if i < 0 || !l.devices[i].withdrawn || l.devices[i].missing {
		return false
	}
	l.turn(i, false)
	return true
}

// turn changes whether a device is in service. It subtracts all allocations from the sums before the change and adds
// them again after it.
func (l *Ledger) turn(i int, withdrawn bool) {
	d := &l.devices[i]
	l.postAll(-1)
	d.withdrawn = withdrawn
	l.postAll(1)
	rest := WholeGPU - d.used
	if !withdrawn {
		rest = -rest
	}
	l.free.MilliGPU -= rest
	l.withdrawn.MilliGPU += rest
	l.version++
}

func (l *Ledger) postAll(sign int64) {
	for _, s := range l.slices {
		if s.Holds() {
			l.post(s, sign)
		}
	}
}

// errAdopt is returned for an allocation that does not fit the ledger. Only a record that this program did not write
// can contain one.
var errAdopt = errors.New("allocation does not fit the ledger")

// Adopt adds an allocation from disk, committed or in a later state, with its exact devices. A missing device is added
// as withdrawn. Missing CPUs or memory count until the allocation ends, so that the sums are correct and the node has
// no free capacity until then.
func (l *Ledger) Adopt(s Allocation) error {
	if s.State < AllocationCommitted || s.State > AllocationEnded || len(s.Grants) == 0 || l.Allocation(s.Token) != nil {
		return fmt.Errorf("%w: %v is %v, has no grants, or is a duplicate", errAdopt, s.Token, s.State)
	}
	for i := range s.Grants[1:] {
		if s.Grants[i].Rank >= s.Grants[i+1].Rank {
			return fmt.Errorf("%w: the ranks of %v do not ascend", errAdopt, s.Token)
		}
	}
	if s.Port != 0 && s.Holds() &&
		slices.ContainsFunc(l.slices, func(o *Allocation) bool { return o.Holds() && o.Port == s.Port }) {
		return fmt.Errorf("%w: port %d of %v belongs to another allocation", errAdopt, s.Port, s.Token)
	}
	own := s
	own.Grants = slices.Clone(s.Grants)
	own.amount, own.held, own.ExpiresAt = Resources{}, nil, 0
	if own.State == AllocationEnded {
		if !own.AllGone() {
			return fmt.Errorf("%w: %v has ended, but not all exits are confirmed", errAdopt, s.Token)
		}
	} else if err := l.regain(&own); err != nil {
		return err
	}
	l.insert(&own)
	l.version++
	return nil
}

// regain gives an allocation the resources that it had before.
func (l *Ledger) regain(s *Allocation) error {
	for i := range s.Grants {
		g := &s.Grants[i]
		g.GPUs = slices.Clone(g.GPUs)
		var sum int64
		for j := range g.GPUs {
			d := l.deviceOrGhost(g.GPUs[j].GPU)
			g.GPUs[j].GPU = l.devices[d].gpu.ID
			s.held = append(s.held, holding{d, g.GPUs[j].Milli})
			sum += g.GPUs[j].Milli
		}
		if sum != g.Amount.MilliGPU || g.Amount.IsNegative() {
			return fmt.Errorf("%w: rank %d of %v: the shares of devices add up to %d", errAdopt, g.Rank, s.Token, sum)
		}
		s.amount = s.amount.Plus(g.Amount)
	}
	if err := l.fits(s); err != nil {
		return err
	}
	stretch(&l.total.MilliCPU, &l.free.MilliCPU, s.amount.MilliCPU)
	stretch(&l.total.MemoryBytes, &l.free.MemoryBytes, s.amount.MemoryBytes)
	l.occupy(s)
	return nil
}

// fits reports whether every device has the share that the allocation holds.
func (l *Ledger) fits(s *Allocation) error {
	want := make([]int64, len(l.devices))
	for _, h := range s.held {
		want[h.device] += h.milli
		if h.milli <= 0 || l.devices[h.device].used+want[h.device] > WholeGPU {
			return fmt.Errorf("%w: %v holds more of %s than is free", errAdopt, s.Token, l.devices[h.device].gpu.ID)
		}
	}
	return nil
}

func stretch(total, free *int64, want int64) {
	if more := want - *free; more > 0 {
		*total += more
		*free += more
	}
}

// deviceOrGhost returns the index of a device. It adds a missing device as withdrawn.
func (l *Ledger) deviceOrGhost(id GPUID) int {
	if i := l.device(id); i >= 0 {
		return i
	}
	l.devices = append(l.devices, device{gpu: GPU{ID: id}, withdrawn: true, missing: true})
	l.total.MilliGPU += WholeGPU
	l.withdrawn.MilliGPU += WholeGPU
	return len(l.devices) - 1
}
