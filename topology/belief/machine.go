package belief

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file has the leader's view of one node: the last reported ledger, reduced by the leader's newer claims. A claim
// is dropped only when the node reports a ledger at least as new as its answer to the claim. An older heartbeat
// therefore never frees anything.

// Machine is the leader's view of one node.
type Machine struct {
	id      topology.NodeID
	books   Books // the newest ledger of this start of the agent
	booked  bool
	tenants []*Tenant
	uids    *topology.UIDs // of all nodes
	tree    *topology.Tree // its followers must know the attempts on each node
	held    []uint32       // the uids in the newest ledger

	backedOff string        // the reason of the backoff; empty: none
	rest      time.Duration // duration of the last backoff, doubled each time; 0 after a success
}

// Books holds the part of a node's reported ledger that concerns capacity.
type Books struct {
	Version     uint64
	Free        topology.Capacity
	Allocations []Allocation
	UIDs        []uint32 // the uids in use on the node
}

// Allocation holds the allocation of an attempt on the node.
type Allocation struct {
	Token     topology.Token
	Committed bool // committed or a later state
	Over      bool // ended; holds nothing
}

// Lodger is an attempt, on all its nodes. It may also be a job that holds a node to replace a lost one.
type Lodger struct {
	Token topology.Token
	Job   topology.JobID
	UID   uint32 // uid of its job, held for it; 0: none
	Stay  *Stay  // nil: unknown end
	Spare bool   // it has no task, and no ledger ever shows it
	// Over is the spare whose capacity the attempt uses on the node. The spare holds nothing meanwhile.
	Over topology.Token
}

// Tenant is an attempt that runs, or may run, on the node.
type Tenant struct {
	Lodger

	amounts []topology.Resources  // one per rank
	one     [1]topology.Resources // memory for the usual single rank
	version uint64                // ledger version of the node's answer; 0: no answer yet
	claimed bool                  // no ledger that includes it has arrived
	leaving bool                  // from version on, nothing of it is left
	from    topology.Token        // the ended attempt whose resources it takes over; zero: none
}

// Amount returns the sum of all ranks of the attempt on the node.
func (t *Tenant) Amount() (sum topology.Resources) {
	for _, a := range t.amounts {
		sum = sum.Plus(a)
	}
	return sum
}

// Tenants returns the attempts that run, or may run, on the node, in the order of their arrival. The caller only reads
// them.
func (m *Machine) Tenants() []*Tenant { return m.tenants }

// Tenant returns an attempt, or nil if it is not on the node.
func (m *Machine) Tenant(t topology.Token) *Tenant {
	for _, who := range m.tenants {
		if who.Token == t {
			return who
		}
	}
	return nil
}

// Claim adds one rank of an attempt whose reservation no reported ledger shows yet.
func (m *Machine) Claim(who *Lodger, amount topology.Resources) { m.lodge(who, amount, true) }

// Lodge adds an attempt that may run on the node according to the records, with the amounts of its ranks. If it runs,
// the node's ledger shows it. A known attempt is not added twice, because records are read again after the actor of a
// job has failed.
func (m *Machine) Lodge(who *Lodger, amounts ...topology.Resources) {
	if m.Tenant(who.Token) != nil {
		return
	}
	for _, a := range amounts {
		m.lodge(who, a, false)
	}
}

func (m *Machine) lodge(who *Lodger, amount topology.Resources, claimed bool) {
	t := m.Tenant(who.Token)
	if t == nil {
		t = &Tenant{Lodger: *who, claimed: claimed}
		t.amounts = t.one[:0]
		m.uids.Hold(t.UID)
		m.tenants = append(m.tenants, t)
		if t.Stay != nil {
			t.Stay.on = append(t.Stay.on, m)
		}
	}
	t.amounts = append(t.amounts, amount)
	m.tree.Touch(m.id)
}

// Evict removes an attempt of which nothing is left on the node.
func (m *Machine) Evict(t topology.Token) {
	if who := m.Tenant(t); who != nil {
		m.uids.Release(who.UID)
		m.tenants = slices.DeleteFunc(m.tenants, func(other *Tenant) bool { return other == who })
		m.tree.Touch(m.id)
	}
}

// Inherit replaces an ended attempt whose resources the node keeps by its heir. What the node's ledgers show of the
// ended attempt belongs to the heir from then on.
func (m *Machine) Inherit(from topology.Token, heir *Lodger, amounts ...topology.Resources) {
	m.Evict(from)
	m.Lodge(heir, amounts...)
	if t := m.Tenant(heir.Token); t != nil {
		t.from = from
	}
}

// Answered records the ledger version with which the node accepted an attempt. It reports whether that ended a claim,
// because the ledger of that version had arrived before the answer.
func (m *Machine) Answered(t topology.Token, version uint64) bool {
	who := m.Tenant(t)
	if who == nil {
		return false
	}
	who.version = version
	if m.Version() < version || !who.claimed {
		return false
	}
	who.claimed = false
	return true
}

// Vacated records that nothing of an attempt is left from a ledger version on.
func (m *Machine) Vacated(t topology.Token, version uint64) {
	who := m.Tenant(t)
	switch {
	case who == nil:
	case version <= m.Version():
		m.Evict(t)
	default:
		who.leaving, who.version = true, version
	}
}

// Version returns the version of the newest ledger, or 0 if there is none.
func (m *Machine) Version() uint64 { return m.books.Version }

// Report replaces the ledger with a newer one, and drops the claims that the newer one includes.
func (m *Machine) Report(b Books) {
	m.holdUIDs(b.UIDs)
	b.UIDs = nil // held by holdUIDs
	m.books, m.booked = b, true
	m.keep(func(who *Tenant) bool {
		covered := who.version > 0 && b.Version >= who.version
		if covered {
			who.claimed = false
		}
		return !who.leaving || !covered
	})
}

// Restart drops the ledger of an earlier start of the agent, and the claims on it. The next ledger shows what the agent
// had granted. The agent refuses requests that it had not read before the restart.
func (m *Machine) Restart() {
	m.books, m.booked = Books{}, false
	m.keep(func(who *Tenant) bool {
		if who.leaving {
			return false
		}
		who.claimed, who.version = who.Spare, 0 // no ledger ever shows a spare
		return true
	})
}

// keep removes the tenants for which stays returns false.
func (m *Machine) keep(stays func(*Tenant) bool) {
	kept := m.tenants[:0]
	for _, who := range m.tenants {
		if stays(who) {
			kept = append(kept, who)
		} else {
			m.uids.Release(who.UID)
			m.tree.Touch(m.id)
		}
	}
	clear(m.tenants[len(kept):])
	m.tenants = kept
}

// holdUIDs holds the uids of the newest ledger instead of those of the ledger before.
func (m *Machine) holdUIDs(uids []uint32) {
	for _, uid := range uids {
		m.uids.Hold(uid)
	}
	for _, uid := range m.held {
		m.uids.Release(uid)
	}
	m.held = uids
}

// free returns the capacity to plan with. If more is claimed than an older ledger shows as free, nothing is free.
func (m *Machine) free(believed bool) topology.Capacity {
	if !m.booked || !believed {
		return topology.Capacity{}
	}
	c := m.books.Free
	for _, who := range m.tenants {
		if who.Spare && m.covered(who.Token) {
			continue
		}
		if who.claimed && !who.leaving && !m.shows(who.Token, false) {
			for _, a := range who.amounts {
				c = c.Less(a)
			}
		}
	}
	return c.Floored()
}

// covered reports whether an attempt uses the capacity of a spare.
func (m *Machine) covered(spare topology.Token) bool {
	return slices.ContainsFunc(m.tenants, func(t *Tenant) bool { return t.Over == spare })
}

// shows reports whether the newest ledger has an allocation of an attempt. If committed is true, reservations do not
// count.
func (m *Machine) shows(t topology.Token, committed bool) bool {
	return slices.ContainsFunc(m.books.Allocations, func(s Allocation) bool {
		return s.Token == t && (s.Committed || !committed)
	})
}

// Overdue returns the number of claims that the newest ledger should have ended. The ledger shows these claims as
// committed, or is as new as the answer that nothing of them is left. It is not an error before that, because an older
// ledger may arrive after the answer.
func (m *Machine) Overdue() (n int) {
	for _, t := range m.tenants {
		if t.leaving && m.Version() >= t.version || !t.leaving && t.claimed && m.shows(t.Token, true) {
			n++
		}
	}
	return n
}
