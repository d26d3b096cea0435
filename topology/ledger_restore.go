package topology

import (
	"errors"
	"fmt"
	"slices"
)

// This file owns what becomes of the books when the machine is not what it was:
// a device that faults or vanishes, and slices that are read from the disk at the agent's start, perhaps on a machine
// that has less than it had.

// Withdraw takes a device out of service. What a slice has of it stays with the
// slice, counted as stopping, until the slice ends. It reports whether anything changed.
func (l *Ledger) Withdraw(id GPUID) bool {
	i := l.device(id)
	if i < 0 || l.devices[i].withdrawn {
		return false
	}
	l.turn(i, true)
	return true
}

// Restore puts a withdrawn device back into service, if the machine has it.
func (l *Ledger) Restore(id GPUID) bool {
	i := l.device(id)
	if i < 0 || !l.devices[i].withdrawn || l.devices[i].missing {
		return false
	}
	l.turn(i, false)
	return true
}

// turn removes from the sums what depends on whether the device is in service, changes that, and adds it again.
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

// errAdopt is returned for a slice that the books cannot hold; only a record
// that we did not write can have one.
var errAdopt = errors.New("slice does not fit the ledger")

// Adopt enters a slice as the disk had it: committed or further, with its exact
// devices. A device that the machine no longer has comes back as a withdrawn one,
// and processors or memory that it no longer has are counted until the slice ends, so that the books balance and the
// machine is full until then.
func (l *Ledger) Adopt(s Slice) error {
	if s.State < SliceCommitted || s.State > SliceOver || len(s.Grants) == 0 || l.Slice(s.Token) != nil {
		return fmt.Errorf("%w: %v is %v, or twice there", errAdopt, s.Token, s.State)
	}
	for i := range s.Grants[1:] {
		if s.Grants[i].Rank >= s.Grants[i+1].Rank {
			return fmt.Errorf("%w: the ranks of %v do not ascend", errAdopt, s.Token)
		}
	}
	if s.Port != 0 && s.Holds() &&
		slices.ContainsFunc(l.slices, func(o *Slice) bool { return o.Holds() && o.Port == s.Port }) {
		return fmt.Errorf("%w: port %d of %v belongs to another slice", errAdopt, s.Port, s.Token)
	}
	own := s
	own.Grants = slices.Clone(s.Grants)
	own.amount, own.held, own.ExpiresAt = Resources{}, nil, 0
	if own.State == SliceOver {
		if !own.AllGone() {
			return fmt.Errorf("%w: %v is over without all its exits", errAdopt, s.Token)
		}
	} else if err := l.regain(&own); err != nil {
		return err
	}
	l.insert(&own)
	l.version++
	return nil
}

// regain gives a slice back exactly what it had.
func (l *Ledger) regain(s *Slice) error {
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
			return fmt.Errorf("%w: rank %d of %v has shares of %d", errAdopt, g.Rank, s.Token, sum)
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

// fits reports whether every device has what the slice says it has of it.
func (l *Ledger) fits(s *Slice) error {
	want := make([]int64, len(l.devices))
	for _, h := range s.held {
		want[h.device] += h.milli
		if h.milli <= 0 || l.devices[h.device].used+want[h.device] > WholeGPU {
			return fmt.Errorf("%w: %v wants more of %s than there is", errAdopt, s.Token, l.devices[h.device].gpu.ID)
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

// deviceOrGhost finds a device, or enters one that is gone as withdrawn.
func (l *Ledger) deviceOrGhost(id GPUID) int {
	if i := l.device(id); i >= 0 {
		return i
	}
	l.devices = append(l.devices, device{gpu: GPU{ID: id}, withdrawn: true, missing: true})
	l.total.MilliGPU += WholeGPU
	l.withdrawn.MilliGPU += WholeGPU
	return len(l.devices) - 1
}
