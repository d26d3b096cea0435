package belief

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file owns what is believed of one machine: the books that it last reported, plus the leader's own claims;
// nothing is subtracted. A claim leaves only when books have arrived that are at least as new as the machine's answer
// to it, so an older heartbeat never frees anything.

// Machine is one machine.
type Machine struct {
	id      topology.NodeID
	books   Books // the newest, where there are any of this start of its agent
	booked  bool
	tenants []*Tenant
	uids    *topology.UIDs   // of all machines
	fabric  *topology.Fabric // its follower is told where each attempt is
	held    []uint32         // of them, as the newest books say

	benched string        // why it is left out; empty: it is not
	rest    time.Duration // of the last bench, doubling; zero after it did well
}

// Books holds the part of a node's reported ledger that concerns capacity.
type Books struct {
	Version uint64
	Free    topology.Capacity
	Slices  []Slice
	UIDs    []uint32 // that own anything there
}

// Slice holds the allocation of an attempt on the node.
type Slice struct {
	Token     topology.Token
	Committed bool // or further
	Over      bool // it holds nothing any more
}

// Lodger is an attempt, whichever machines it is on.
type Lodger struct {
	Token topology.Token
	Job   topology.JobID
	UID   uint32 // of its job, and held for it; 0: none
	Stay  *Stay  // nil: nobody knows when it ends
}

// Tenant is an attempt that is, or may be, on the machine.
type Tenant struct {
	Lodger

	amounts []topology.Resources  // one per rank
	one     [1]topology.Resources // most have no more
	version uint64                // of the machine's answer; 0: none yet
	claimed bool                  // no books that would show it have arrived
	leaving bool                  // nothing of it is left from version on
}

// Amount returns the sum of all ranks of the attempt on the node.
func (t *Tenant) Amount() (sum topology.Resources) {
	for _, a := range t.amounts {
		sum = sum.Plus(a)
	}
	return sum
}

// Tenants are the attempts that are or may be there, in the order in which they came. The caller only reads.
func (m *Machine) Tenants() []*Tenant { return m.tenants }

// Tenant finds an attempt; nil when it is not there.
func (m *Machine) Tenant(t topology.Token) *Tenant {
	for _, who := range m.tenants {
		if who.Token == t {
			return who
		}
	}
	return nil
}

// Claim notes that a rank of an attempt was given room there that no books show yet.
func (m *Machine) Claim(who *Lodger, amount topology.Resources) { m.lodge(who, amount, true) }

// Lodge notes that an attempt may be there, with these amounts of its ranks, as records say. If it is, the machine's
// books show it. An attempt that is already known there is not added again: records are read again after the actor of a
// job broke.
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
	m.fabric.Touch(m.id)
}

// Evict forgets an attempt: nothing of it is there.
func (m *Machine) Evict(t topology.Token) {
	if who := m.Tenant(t); who != nil {
		m.uids.Release(who.UID)
		m.tenants = slices.DeleteFunc(m.tenants, func(other *Tenant) bool { return other == who })
		m.fabric.Touch(m.id)
	}
}

// Answered notes with which version of its books the machine took an attempt in, and reports whether that frees a
// claim: books as new as that have come before the answer.
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

// Vacated notes that nothing of an attempt is left from a version of the machine's books on.
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

// Version is the version of the newest books, 0 where there are none.
func (m *Machine) Version() uint64 { return m.books.Version }

// Report replaces the books with newer ones, and drops the claims that these cover.
func (m *Machine) Report(b Books) {
	m.holdUIDs(b.UIDs)
	b.UIDs = nil // they are held
	m.books, m.booked = b, true
	m.keep(func(who *Tenant) bool {
		covered := who.version > 0 && b.Version >= who.version
		if covered {
			who.claimed = false
		}
		return !who.leaving || !covered
	})
}

// Restart forgets the books of an earlier start of the agent, and the claims on it: what the agent had granted is in
// its next books or gone, and it will refuse what it had not yet read.
func (m *Machine) Restart() {
	m.books, m.booked = Books{}, false
	m.keep(func(who *Tenant) bool {
		if who.leaving {
			return false
		}
		who.claimed, who.version = false, 0
		return true
	})
}

// keep drops the tenants for which stays is false.
func (m *Machine) keep(stays func(*Tenant) bool) {
	kept := m.tenants[:0]
	for _, who := range m.tenants {
		if stays(who) {
			kept = append(kept, who)
		} else {
			m.uids.Release(who.UID)
			m.fabric.Touch(m.id)
		}
	}
	clear(m.tenants[len(kept):])
	m.tenants = kept
}

// holdUIDs holds the uids of the newest books in place of those of the books before.
func (m *Machine) holdUIDs(uids []uint32) {
	for _, uid := range uids {
		m.uids.Hold(uid)
	}
	for _, uid := range m.held {
		m.uids.Release(uid)
	}
	m.held = uids
}

// free returns the capacity to plan with. A ledger that does not know the claims yet may show less than is claimed:
// then nothing is free.
func (m *Machine) free(believed bool) topology.Capacity {
	if !m.booked || !believed {
		return topology.Capacity{}
	}
	c := m.books.Free
	for _, who := range m.tenants {
		if who.claimed && !who.leaving && !m.shows(who.Token, false) {
			for _, a := range who.amounts {
				c = c.Less(a)
			}
		}
	}
	return c.Floored()
}

// shows reports whether the newest books have anything of an attempt; with committed, only what is committed counts.
func (m *Machine) shows(t topology.Token, committed bool) bool {
	return slices.ContainsFunc(m.books.Slices, func(s Slice) bool {
		return s.Token == t && (s.Committed || !committed)
	})
}

// Overdue counts the claims that should have gone with the newest books: these show them as committed, or are as new as
// the answer that nothing of them is left. Before that, books older than the answer may still arrive after it.
func (m *Machine) Overdue() (n int) {
	for _, t := range m.tenants {
		if t.leaving && m.Version() >= t.version || !t.leaving && t.claimed && m.shows(t.Token, true) {
			n++
		}
	}
	return n
}
