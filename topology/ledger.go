package topology

import (
	"fmt"
	"slices"
)

// This file has the ledger of one node: its resources, the free part, and the allocation that holds each other part.
// The ledger is the only authority over its devices. It has no clock: callers pass the time of the node's monotonic
// clock in nanoseconds. The ledger must never lose an amount or count it twice. Check verifies this after every change.

// AllocationState is the state of an attempt's allocation on this node.
type AllocationState uint8

// The states of an allocation. From AllocationCommitted on, the allocation is on the node's disk.
const (
	AllocationReserved  AllocationState = iota + 1 // phase one, until the TTL
	AllocationCommitted                            // phase two
	AllocationPrepared                             // every rank is ready to start
	AllocationStarted                              // the gang has passed the barrier
	AllocationStopping                             // stopped, and waiting for exit confirmations
	AllocationEnded                                // ended; holds only its exits
)

var allocationStateNames = [...]string{"none", "reserved", "committed", "prepared", "started", "stopping", "over"}

func (s AllocationState) String() string {
	if int(s) < len(allocationStateNames) {
		return allocationStateNames[s]
	}
	return fmt.Sprintf("SliceState(%d)", uint8(s))
}

// Member is the request of one rank on a node.
type Member struct {
	Rank   Rank
	Amount Resources
}

// Grant holds the resources of one rank: its amount and the exact devices.
type Grant struct {
	Rank   Rank
	Amount Resources
	GPUs   []Share
	Gone   bool // confirmed: no process of the rank runs
}

// Allocation holds the allocation of one attempt on this node. Only the ledger writes to it; others read.
type Allocation struct {
	Token     Token
	Job       JobID
	State     AllocationState
	Grants    []Grant // in rank order
	Port      int32   // rendezvous port; 0: not needed
	ExpiresAt int64   // of a reservation

	amount Resources // sum of all grants, while held
	held   []holding // all grants by index of device
}

// holding is a share by the index of its device, so that Check needs no look-up.
type holding struct {
	device int
	milli  int64
}

// Holds reports whether the allocation holds any resources.
func (s *Allocation) Holds() bool { return s.State != AllocationEnded }

// AllGone reports whether the exit of every rank is confirmed.
func (s *Allocation) AllGone() bool {
	return !slices.ContainsFunc(s.Grants, func(g Grant) bool { return !g.Gone })
}

// HoldsGPU reports whether the allocation holds a share of this device.
func (s *Allocation) HoldsGPU(id GPUID) bool {
	return s.Holds() && slices.ContainsFunc(s.Grants, func(g Grant) bool {
		return slices.ContainsFunc(g.GPUs, func(h Share) bool { return h.GPU == id })
	})
}

// device is the state of one GPU in the ledger.
type device struct {
	gpu       GPU
	used      int64 // by allocations, in thousandths
	withdrawn bool  // faulty or missing: its unused part does not count as free
	missing   bool  // no longer announced by the node, but held by an earlier allocation
}

// LedgerConfig is the node that a ledger accounts for.
type LedgerConfig struct {
	MilliCPU    int64
	MemoryBytes int64
	GPUs        []GPU // in the order in which they are assigned
	PortFirst   int32 // of the range of rendezvous ports; 0: none
	PortLast    int32
	// TombstoneAgeNs is the minimum age at which a tombstone may be removed.
	TombstoneAgeNs int64
}

// Ledger is the ledger of one node.
type Ledger struct {
	devices   []device
	has       Resources // resources of the node; total is larger only while earlier allocations hold more
	total     Resources
	free      Resources
	reserved  Resources
	committed Resources
	stopping  Resources
	withdrawn Resources

	slices  []*Allocation // by token
	ports   portRange
	tombs   tombstones
	version uint64
	tally   []int64 // by device; memory that Check and choose reuse to avoid allocations
}

// NewLedger returns an empty ledger.
func NewLedger(c LedgerConfig) *Ledger {
	l := &Ledger{
		ports:   newPortRange(c.PortFirst, c.PortLast),
		tombs:   tombstones{ageNs: c.TombstoneAgeNs},
		version: 1,
	}
	for _, g := range c.GPUs {
		l.devices = append(l.devices, device{gpu: g})
	}
	l.has = Resources{c.MilliCPU, c.MemoryBytes, WholeGPU * int64(len(c.GPUs))}
	l.total, l.free = l.has, l.has
	return l
}

// Books are the sums of the ledger. Free, Reserved, Committed, Stopping and Withdrawn add up to Total.
type Books struct {
	Total, Free, Reserved, Committed, Stopping, Withdrawn Resources
}

// Books returns the sums.
func (l *Ledger) Books() Books {
	return Books{l.total, l.free, l.reserved, l.committed, l.stopping, l.withdrawn}
}

// Version grows with every change.
func (l *Ledger) Version() uint64 { return l.version }

// Touch counts a change of data that is reported with the ledger but stored elsewhere.
func (l *Ledger) Touch() { l.version++ }

// Allocations returns all allocations by token. The caller only reads them.
func (l *Ledger) Allocations() []*Allocation { return l.slices }

// Allocation returns the allocation of a token, or nil.
func (l *Ledger) Allocation(t Token) *Allocation {
	if i, ok := l.find(t); ok {
		return l.slices[i]
	}
	return nil
}

func (l *Ledger) find(t Token) (int, bool) {
	return slices.BinarySearchFunc(l.slices, t, func(s *Allocation, t Token) int { return s.Token.Compare(t) })
}

// FreeShares returns all devices with free capacity, in the order of the node.
func (l *Ledger) FreeShares() []Share {
	var out []Share
	for i := range l.devices {
		if d := &l.devices[i]; !d.withdrawn && d.used < WholeGPU {
			if out == nil {
				out = make([]Share, 0, len(l.devices)-i)
			}
			out = append(out, Share{d.gpu.ID, WholeGPU - d.used})
		}
	}
	return out
}

// WithdrawnGPUs returns the devices that take no new work.
func (l *Ledger) WithdrawnGPUs() []GPUID {
	var out []GPUID
	for i := range l.devices {
		if l.devices[i].withdrawn {
			out = append(out, l.devices[i].gpu.ID)
		}
	}
	return out
}

// Capacity returns the free capacity, as a placement sees it.
func (l *Ledger) Capacity() Capacity { return CapacityOf(l.free, l.FreeShares()) }

// device returns the index of a device, or -1 if the ledger does not know it.
func (l *Ledger) device(id GPUID) int {
	return slices.IndexFunc(l.devices, func(d device) bool { return d.gpu.ID == id })
}
