package topology

// This file has the arithmetic of free capacity, including shares of devices. The ledger of a node, the leader's view
// and claims all use these rules, so that the view matches the node's next report.

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

// CapacityOf returns the capacity of free amounts and free shares of devices.
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

// Equal reports whether two capacities are equal.
func (c Capacity) Equal(o Capacity) bool {
	return c.MilliCPU == o.MilliCPU && c.MemoryBytes == o.MemoryBytes &&
		c.WholeGPUs == o.WholeGPUs && slices.Equal(c.Parts, o.Parts)
}

// MilliGPU returns the sum of whole devices and parts.
func (c Capacity) MilliGPU() int64 {
	sum := int64(c.WholeGPUs) * WholeGPU
	for _, p := range c.Parts {
		sum += p
	}
	return sum
}

// Less subtracts an amount. A share is taken from the smallest part that is large enough, and from a whole device only
// if no part is. The node itself chooses the actual device. If nothing is large enough, a negative part records the
// missing share.
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

// Floored returns the capacity with 0 instead of negative amounts.
func (c Capacity) Floored() Capacity {
	c.MilliCPU, c.MemoryBytes, c.WholeGPUs = max(c.MilliCPU, 0), max(c.MemoryBytes, 0), max(c.WholeGPUs, 0)
	for n := len(c.Parts); n > 0 && c.Parts[n-1] < 0; n-- {
		c.Parts = c.Parts[:n-1]
	}
	return c
}

// More adds an amount. A share first cancels an equal missing share, or completes a device exactly, because that is its
// most likely origin. Otherwise it is added to the largest part with enough space for it.
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

// smallest returns the index of the smallest part that holds a share, the first among equals, or -1. Larger parts
// remain useful, and a whole device, which is the largest part, is the last choice.
func smallest(parts []int64, share int64) int {
	best := -1
	for at, left := range parts {
		if left >= share && (best < 0 || left < parts[best]) {
			best = at
		}
	}
	return best
}

// withPart returns the parts, largest first, with the part at an index replaced, or added if the index is -1. It always
// copies, because undo records and callers keep earlier capacities.
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
