package topology

// This file owns the arithmetic of what a machine has free, shares of devices
// included.

import (
	"cmp"
	"slices"
)

// Idle is what a machine has free when nothing runs on it.
func (m Machine) Idle() Capacity {
	return Capacity{
		MilliCPU:    m.Total.MilliCPU,
		MemoryBytes: m.Total.MemoryBytes,
		WholeGPUs:   int32(m.Total.MilliGPU / WholeGPU),
	}
}

func (c Capacity) equal(o Capacity) bool {
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

// without takes an amount away. A share goes to the smallest part that holds
// it, so that larger parts stay useful, and breaks a whole device only when no
// part does; which device it is in truth, the machine decides.
func (c Capacity) without(a Resources) Capacity {
	c.MilliCPU -= a.MilliCPU
	c.MemoryBytes -= a.MemoryBytes
	c.WholeGPUs -= int32(a.MilliGPU / WholeGPU)
	share := a.MilliGPU % WholeGPU
	if share == 0 {
		return c
	}
	at := c.bestPart(share)
	if at < 0 {
		c.WholeGPUs--
		c.Parts = withPart(c.Parts, -1, WholeGPU-share)
		return c
	}
	c.Parts = withPart(c.Parts, at, c.Parts[at]-share)
	return c
}

// with gives an amount back. A share first completes a device exactly, because
// that is how it most likely was cut; otherwise it joins the largest part that
// it fits beside.
func (c Capacity) with(a Resources) Capacity {
	c.MilliCPU += a.MilliCPU
	c.MemoryBytes += a.MemoryBytes
	c.WholeGPUs += int32(a.MilliGPU / WholeGPU)
	share := a.MilliGPU % WholeGPU
	if share == 0 {
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

// bestPart finds the smallest part that holds a share; -1 when none does.
func (c Capacity) bestPart(share int64) int {
	for at := len(c.Parts) - 1; at >= 0; at-- {
		if c.Parts[at] >= share {
			return at
		}
	}
	return -1
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
	if size > 0 {
		next = append(next, size)
	}
	if len(next) == 0 {
		return nil
	}
	slices.SortFunc(next, func(a, b int64) int { return cmp.Compare(b, a) })
	return next
}
