package topology

import (
	"fmt"
	"slices"
)

// This file has phase one: it checks whether a claim fits, and chooses its devices and port. Equal ledgers make equal
// choices. Whole devices are taken in the order of their index. A share is taken from the smallest part that fits, so
// that shared devices stay together, and from a whole device only if no part fits.

// Claim holds the request of an attempt on this node.
type Claim struct {
	Token    Token
	Job      JobID
	Members  []Member
	GPUType  string // "": any
	WantPort bool
	TTLNs    int64 // from now
}

// Lack is the resource that a claim lacked.
type Lack uint8

// The resources that can be missing.
const (
	LackCPU Lack = iota + 1
	LackMemory
	LackGPU
	LackGPUType // the node has no such device
	LackPort
	LackSense // the claim itself is invalid
)

// Shortage is the reason why a claim was refused.
type Shortage struct {
	Lack   Lack
	Detail string
}

func (s *Shortage) String() string { return s.Detail }

func lack(what Lack, format string, args ...any) *Shortage {
	return &Shortage{what, fmt.Sprintf(format, args...)}
}

// Reserve sets the amounts and devices of a claim aside until its TTL. If something is missing, it returns the shortage
// and changes nothing. The token must be new.
func (l *Ledger) Reserve(c Claim, now int64) (*Allocation, *Shortage) {
	if l.tombs.past(c.Token).Over() || l.Allocation(c.Token) != nil {
		panic(fmt.Sprintf("ledger: reserve %v: the token is not new", c.Token))
	}
	amount, short := l.covers(c.Members)
	if short != nil {
		return nil, short
	}
	s := &Allocation{Token: c.Token, Job: c.Job, State: AllocationReserved, ExpiresAt: now + c.TTLNs, amount: amount}
	if s.Grants, s.held, short = l.choose(c.Members, c.GPUType); short != nil {
		return nil, short
	}
	if c.WantPort {
		if s.Port = l.ports.next(l.slices); s.Port == 0 {
			return nil, lack(LackPort, "no rendezvous port is free")
		}
	}
	l.occupy(s)
	l.insert(s)
	l.version++
	return s, nil
}

// covers adds the amounts of the members. It compares after each addition, because the sum of two huge amounts from the
// network could overflow.
func (l *Ledger) covers(members []Member) (Resources, *Shortage) {
	var sum Resources
	if len(members) == 0 {
		return sum, lack(LackSense, "no members")
	}
	for i, m := range members {
		if m.Amount.IsNegative() || m.Rank < 0 || i > 0 && members[i-1].Rank >= m.Rank {
			return sum, lack(LackSense, "ranks must ascend, and amounts must not be negative")
		}
		left := l.free.Minus(sum)
		switch a := m.Amount; {
		case a.MilliCPU > left.MilliCPU:
			return sum, lack(LackCPU, "rank %d wants %d milli-CPU, %d are left", m.Rank, a.MilliCPU, left.MilliCPU)
		case a.MemoryBytes > left.MemoryBytes:
			return sum, lack(LackMemory, "rank %d wants %d bytes of memory, %d are left", m.Rank, a.MemoryBytes,
				left.MemoryBytes)
		case a.MilliGPU > left.MilliGPU:
			return sum, lack(LackGPU, "rank %d wants %d milli-GPU, %d are left", m.Rank, a.MilliGPU, left.MilliGPU)
		}
		sum = sum.Plus(m.Amount)
	}
	return sum, nil
}

// choose selects devices: first whole devices for all members, because these are harder to find, and then shares.
func (l *Ledger) choose(members []Member, gpuType string) ([]Grant, []holding, *Shortage) {
	grants := make([]Grant, len(members))
	for i, m := range members {
		grants[i] = Grant{Rank: m.Rank, Amount: m.Amount}
	}
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Amount.MilliGPU > 0 }) {
		return grants, nil, nil
	}
	left, short := l.eligible(gpuType)
	if short != nil {
		return nil, nil, short
	}
	held := make([]holding, 0, len(l.devices))
	give := func(g *Grant, device int, milli int64) {
		left[device] -= milli
		g.GPUs = append(g.GPUs, Share{l.devices[device].gpu.ID, milli})
		held = append(held, holding{device, milli})
	}
	for i := range grants {
		grants[i].GPUs = make([]Share, 0, (grants[i].Amount.MilliGPU+WholeGPU-1)/WholeGPU)
		for want := grants[i].Amount.MilliGPU; want >= WholeGPU; want -= WholeGPU {
			d := slices.Index(left, WholeGPU)
			if d < 0 {
				return nil, nil, lack(LackGPU, "rank %d wants %d milli-GPU, no other whole device is free",
					grants[i].Rank, grants[i].Amount.MilliGPU)
			}
			give(&grants[i], d, WholeGPU)
		}
	}
	for i := range grants {
		part := grants[i].Amount.MilliGPU % WholeGPU
		if part == 0 {
			continue
		}
		d := smallest(left, part)
		if d < 0 {
			return nil, nil, lack(LackGPU, "rank %d wants %d thousandths of one device, no device has that much free",
				grants[i].Rank, part)
		}
		give(&grants[i], d, part)
	}
	return grants, held, nil
}

// eligible returns the free share of each device of a type. It is valid until the next call.
func (l *Ledger) eligible(gpuType string) ([]int64, *Shortage) {
	l.clearTally()
	left := l.tally
	found := gpuType == ""
	for i := range l.devices {
		d := &l.devices[i]
		if gpuType != "" && d.gpu.Type != gpuType {
			continue
		}
		found = true
		if !d.withdrawn {
			left[i] = WholeGPU - d.used
		}
	}
	if !found {
		return nil, lack(LackGPUType, "node has no GPU of type %q", gpuType)
	}
	return left, nil
}

// portRange assigns rendezvous ports in turn. It does not reuse the lowest free port at once, because a member of an
// ended gang may still connect to its old port.
type portRange struct {
	first, last, cursor int32
}

func newPortRange(first, last int32) portRange {
	if first <= 0 || last < first {
		return portRange{}
	}
	return portRange{first, last, first}
}

// next returns the next port that no allocation has, or 0.
func (p *portRange) next(held []*Allocation) int32 {
	if p.first == 0 {
		return 0
	}
	for range p.last - p.first + 1 {
		port := p.cursor
		if p.cursor++; p.cursor > p.last {
			p.cursor = p.first
		}
		if !slices.ContainsFunc(held, func(s *Allocation) bool { return s.Holds() && s.Port == port }) {
			return port
		}
	}
	return 0
}
