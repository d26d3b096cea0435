package topology

import (
	"fmt"
	"slices"
)

// This file owns one machine's books: what there is, what is free, and which
// slice holds the rest. The ledger is the only authority over its devices;
// nobody else can give them away. It has no clock: whoever calls passes the
// time of the machine's monotonic clock in nanoseconds. It must never let an
// amount be counted twice or get lost; Check proves that after every change.

// SliceState is how far one attempt's slice has come on this machine.
type SliceState uint8

// The states of a slice. From SliceCommitted on it is on the machine's disk.
const (
	SliceReserved  SliceState = iota + 1 // phase one, until the TTL
	SliceCommitted                       // phase two
	SlicePrepared                        // every rank could start at once
	SliceStarted                         // past the barrier
	SliceStopping                        // told to stop, evidence awaited
	SliceOver                            // holds nothing but its exits
)

var sliceStateNames = [...]string{"none", "reserved", "committed", "prepared", "started", "stopping", "over"}

func (s SliceState) String() string {
	if int(s) < len(sliceStateNames) {
		return sliceStateNames[s]
	}
	return fmt.Sprintf("SliceState(%d)", uint8(s))
}

// Member is one rank's claim on a machine.
type Member struct {
	Rank   Rank
	Amount Resources
}

// Grant holds the resources of one rank: its amount and the exact devices.
type Grant struct {
	Rank   Rank
	Amount Resources
	GPUs   []Share
	Gone   bool // there is evidence that nothing of the rank runs
}

// Slice holds the allocation of one attempt on this node. Only the ledger writes to it; others read.
type Slice struct {
	Token     Token
	Job       JobID
	State     SliceState
	Grants    []Grant // in rank order
	Port      int32   // for the rendezvous; 0: none wanted
	ExpiresAt int64   // of a reservation

	amount Resources // of all grants, while it holds them
	held   []holding // of all grants, as indices of devices
}

// holding is a share by the device's index, so that Check needs no look-ups.
type holding struct {
	device int
	milli  int64
}

// Holds reports whether the slice keeps anything of the machine.
func (s *Slice) Holds() bool { return s.State != SliceOver }

// AllGone reports whether there is evidence about every rank.
func (s *Slice) AllGone() bool {
	return !slices.ContainsFunc(s.Grants, func(g Grant) bool { return !g.Gone })
}

// HoldsGPU reports whether the slice has a share of this device.
func (s *Slice) HoldsGPU(id GPUID) bool {
	return s.Holds() && slices.ContainsFunc(s.Grants, func(g Grant) bool {
		return slices.ContainsFunc(g.GPUs, func(h Share) bool { return h.GPU == id })
	})
}

// device is one GPU's page in the books.
type device struct {
	gpu       GPU
	used      int64 // by slices, in thousandths
	withdrawn bool  // it faulted or vanished: what is unused does not count as free
	missing   bool  // the machine no longer announces it; an earlier slice still had it
}

// LedgerConfig is the machine whose books a ledger keeps.
type LedgerConfig struct {
	MilliCPU    int64
	MemoryBytes int64
	GPUs        []GPU // in the order in which they are given away
	PortFirst   int32 // of the range of rendezvous ports; 0: there are none
	PortLast    int32
	// TombstoneAgeNs is how long a tombstone is kept at least.
	TombstoneAgeNs int64
}

// Ledger is one machine's books.
type Ledger struct {
	devices   []device
	has       Resources // CPU and memory of the machine; total is more only while earlier slices hold more
	total     Resources
	free      Resources
	reserved  Resources
	committed Resources
	stopping  Resources
	withdrawn Resources

	slices  []*Slice // by token
	ports   portRange
	tombs   tombstones
	version uint64
	tally   []int64 // by device; the scratch of Check and of choose, which then allocate nothing for it
}

// NewLedger opens empty books.
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

// Books are the ledger's sums. Free, Reserved, Committed, Stopping and Withdrawn
// make up Total.
type Books struct {
	Total, Free, Reserved, Committed, Stopping, Withdrawn Resources
}

// Books returns the sums.
func (l *Ledger) Books() Books {
	return Books{l.total, l.free, l.reserved, l.committed, l.stopping, l.withdrawn}
}

// Version grows with every change.
func (l *Ledger) Version() uint64 { return l.version }

// Touch counts a change of something that is reported together with the books
// but kept elsewhere.
func (l *Ledger) Touch() { l.version++ }

// Slices lists all slices by token. The caller only reads.
func (l *Ledger) Slices() []*Slice { return l.slices }

// Slice finds a token's slice; nil if there is none.
func (l *Ledger) Slice(t Token) *Slice {
	if i, ok := l.find(t); ok {
		return l.slices[i]
	}
	return nil
}

func (l *Ledger) find(t Token) (int, bool) {
	return slices.BinarySearchFunc(l.slices, t, func(s *Slice, t Token) int { return s.Token.Compare(t) })
}

// FreeShares lists every device with something free, in the machine's order.
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

// WithdrawnGPUs lists the devices that take no more work.
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

// device finds a device's index; -1 if the machine never had it.
func (l *Ledger) device(id GPUID) int {
	return slices.IndexFunc(l.devices, func(d device) bool { return d.gpu.ID == id })
}
