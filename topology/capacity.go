package topology

// This file owns the arithmetic of what a machine has free, shares of devices
// included: which of them an amount is taken from. The machine's own ledger, the
// view of the leader and the claims on a machine all take by these rules, so that the belief is what the machine would
// say.

import (
	"cmp"
	"slices"
)

// Idle returns the free capacity of a node on which nothing runs.
func (m Machine) Idle() Capacity {
	return Capacity{
		MilliCPU:    m.Total.MilliCPU,
		MemoryBytes: m.Total.MemoryBytes,
		WholeGPUs:   int32(m.Total.MilliGPU / WholeGPU),
	}
}

// CapacityOf adds amounts and free shares of devices up to a capacity.
func CapacityOf(free Resources, shares []Share) Capacity {
	c := Capacity{MilliCPU: free.MilliCPU, MemoryBytes: free.MemoryBytes}
	for _, s := range shares {
		if s.Milli == WholeGPU {
			c.WholeGPUs++
		} else {
			c.Parts = append(c.Parts, s.Milli)
		}
	}
	slices.SortFunc(c.Parts, largestFirst)
	return c
}

func largestFirst(a, b int64) int { return cmp.Compare(b, a) }

// Equal reports whether two capacities are the same.
func (c Capacity) Equal(o Capacity) bool {
	return c.MilliCPU == o.MilliCPU && c.MemoryBytes == o.MemoryBytes &&
		c.WholeGPUs == o.WholeGPUs && slices.Equal(c.Parts, o.Parts)
}

// MilliGPU sums the whole devices and the parts.
func (c Capacity) MilliGPU() int64 {
	sum := int64(c.WholeGPUs) * WholeGPU
	for _, p := range c.Parts {
		sum += p
	}
	return sum
}

// Less takes an amount away. A share goes to the smallest part that holds it, and
// breaks a whole device only when no part does; which device it is in truth, the
// machine decides. A share that nothing holds is owed: a part below zero.
func (c Capacity) Less(a Resources) Capacity {
	c.MilliCPU -= a.MilliCPU
	c.MemoryBytes -= a.MemoryBytes
	c.WholeGPUs -= int32(a.MilliGPU / WholeGPU)
	share := a.MilliGPU % WholeGPU
	if share == 0 {
		return c
	}
	switch at := smallest(c.Parts, share); {
	case at >= 0:
		c.Parts = withPart(c.Parts, at, c.Parts[at]-share)
	case c.WholeGPUs > 0:
		c.WholeGPUs--
		c.Parts = withPart(c.Parts, -1, WholeGPU-share)
	default:
		c.Parts = withPart(c.Parts, -1, -share)
	}
	return c
}

// Floored is the capacity with amounts below zero as zero.
func (c Capacity) Floored() Capacity {
	c.MilliCPU, c.MemoryBytes, c.WholeGPUs = max(c.MilliCPU, 0), max(c.MemoryBytes, 0), max(c.WholeGPUs, 0)
	for n := len(c.Parts); n > 0 && c.Parts[n-1] < 0; n-- {
		c.Parts = c.Parts[:n-1]
	}
	return c
}

// More gives an amount back. A share first settles what is owed or completes a
// device exactly, because that is how it most likely was cut; otherwise it joins
// the largest part that it fits beside.
func (c Capacity) More(a Resources) Capacity {
	c.MilliCPU += a.MilliCPU
	c.MemoryBytes += a.MemoryBytes
	c.WholeGPUs += int32(a.MilliGPU / WholeGPU)
	share := a.MilliGPU % WholeGPU
	if share == 0 {
		return c
	}
	if at := slices.Index(c.Parts, -share); at >= 0 {
		c.Parts = withPart(c.Parts, at, 0)
		return c
	}
	if at := slices.Index(c.Parts, WholeGPU-share); at >= 0 {
		c.WholeGPUs++
		c.Parts = withPart(c.Parts, at, 0)
		return c
	}
	for at, part := range c.Parts {
		if part+share < WholeGPU {
			c.Parts = withPart(c.Parts, at, part+share)
			return c
		}
	}
	c.Parts = withPart(c.Parts, -1, share)
	return c
}

// smallest finds the smallest part that holds a share, the first among equals; -1 when none does. So larger parts stay
// useful, and a whole device, the largest part of all, is the last choice.
func smallest(parts []int64, share int64) int {
	best := -1
	for at, left := range parts {
		if left >= share && (best < 0 || left < parts[best]) {
			best = at
		}
	}
	return best
}

// withPart is the parts with the one at an index replaced (added, when the index
// is -1), largest first. It always copies: capacities are values that undo
// records and callers keep.
func withPart(parts []int64, at int, size int64) []int64 {
	next := make([]int64, 0, len(parts)+1)
	for i, p := range parts {
		if i != at {
			next = append(next, p)
		}
	}
	if size != 0 {
		next = append(next, size)
	}
	if len(next) == 0 {
		return nil
	}
	slices.SortFunc(next, largestFirst)
	return next
}
