package topology

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// This file compares the ledger with a model, after any operations in any order. The model stores no sums and computes
// everything each time. It is deliberately slow and simple.

// modelAllocation is an allocation in the model.
type modelAllocation struct {
	state   AllocationState
	members []Member
	grants  []Grant
	expires int64
	gone    map[Rank]bool
}

// ledgerModel is the model of a ledger.
type ledgerModel struct {
	l         *Ledger
	has       Resources
	gpus      []GPUID
	slices    map[Token]*modelAllocation
	tombs     map[Token]bool // token → the attempt ran
	withdrawn map[GPUID]bool
	now       int64
	next      uint64
}

func newLedgerModel(t *rapid.T) *ledgerModel {
	gpus := rapid.IntRange(0, 5).Draw(t, "gpus")
	l := testLedger(gpus)
	m := &ledgerModel{l: l, has: l.Books().Total, slices: map[Token]*modelAllocation{}, tombs: map[Token]bool{},
		withdrawn: map[GPUID]bool{}}
	for i := range gpus {
		m.gpus = append(m.gpus, GPUID(fmt.Sprintf("gpu-%d", i)))
	}
	return m
}

// used returns the amount of a device that the model's allocations hold.
func (m *ledgerModel) used(id GPUID) int64 {
	var sum int64
	for _, s := range m.slices {
		for _, g := range s.grants {
			for _, h := range g.GPUs {
				if h.GPU == id && s.state != AllocationEnded {
					sum += h.Milli
				}
			}
		}
	}
	return sum
}

// books computes all sums.
func (m *ledgerModel) books() Books {
	b := Books{Total: m.has, Free: m.has}
	for _, s := range m.slices {
		if s.state == AllocationEnded {
			continue
		}
		for _, g := range s.grants {
			b.Free = b.Free.Minus(g.Amount)
			in := map[AllocationState]*Resources{AllocationReserved: &b.Reserved, AllocationStopping: &b.Stopping}[s.state]
			if in == nil {
				in = &b.Committed
			}
			in.MilliCPU += g.Amount.MilliCPU
			in.MemoryBytes += g.Amount.MemoryBytes
			for _, h := range g.GPUs {
				if m.withdrawn[h.GPU] {
					b.Stopping.MilliGPU += h.Milli
				} else {
					in.MilliGPU += h.Milli
				}
			}
		}
	}
	for id := range m.withdrawn {
		rest := WholeGPU - m.used(id)
		b.Free.MilliGPU -= rest
		b.Withdrawn.MilliGPU += rest
	}
	return b
}

// fits reports whether a claim with at most one share fits. ok is false if only trying every combination would show it.
func (m *ledgerModel) fits(members []Member) (fits, ok bool) {
	var sum Resources
	var wholes, fraction int64
	for _, w := range members {
		sum = sum.Plus(w.Amount)
		wholes += w.Amount.MilliGPU / WholeGPU
		if f := w.Amount.MilliGPU % WholeGPU; f > 0 {
			if fraction > 0 {
				return false, false
			}
			fraction = f
		}
	}
	free := m.books().Free
	if sum.MilliCPU > free.MilliCPU || sum.MemoryBytes > free.MemoryBytes {
		return false, true
	}
	var whole int64
	part := false
	for _, id := range m.gpus {
		left := WholeGPU - m.used(id)
		switch {
		case m.withdrawn[id]:
		case left == WholeGPU:
			whole++
		case left >= fraction:
			part = true
		}
	}
	if fraction > 0 && !part {
		wholes++
	}
	return wholes <= whole, true
}

func (m *ledgerModel) reserve(t *rapid.T) {
	m.next++
	tok := Token{Epoch: 1, Counter: m.next}
	c := Claim{Token: tok, Job: "j", TTLNs: rapid.Int64Range(1, 20e9).Draw(t, "ttl")}
	for r := range rapid.IntRange(1, 3).Draw(t, "ranks") {
		c.Members = append(c.Members, Member{Rank(r * 2), Resources{
			rapid.Int64Range(0, 30_000).Draw(t, "cpu"), rapid.Int64Range(0, 200).Draw(t, "memory") * ledgerGiB,
			rapid.SampledFrom([]int64{0, 100, 300, 500, 900, 1000, 1000, 2000, 1250}).Draw(t, "gpu"),
		}})
	}
	want, sure := m.fits(c.Members)
	s, short := m.l.Reserve(c, m.now)
	if sure && want != (short == nil) {
		t.Fatalf("claim %+v: the model says %v, the ledger %v", c.Members, want, short)
	}
	if short != nil {
		return
	}
	for i, g := range s.Grants {
		var sum int64
		for _, h := range g.GPUs {
			if m.withdrawn[h.GPU] {
				t.Fatalf("%s was withdrawn and is granted", h.GPU)
			}
			sum += h.Milli
		}
		if g.Rank != c.Members[i].Rank || g.Amount != c.Members[i].Amount || sum != g.Amount.MilliGPU {
			t.Fatalf("granted %+v for %+v", g, c.Members[i])
		}
	}
	m.slices[tok] = &modelAllocation{
		AllocationReserved, c.Members, slices.Clone(s.Grants), m.now + c.TTLNs, map[Rank]bool{},
	}
}

// pick draws the token of an allocation in one of these states. It returns false if there is none.
func (m *ledgerModel) pick(t *rapid.T, states ...AllocationState) (Token, *modelAllocation, bool) {
	var all []Token
	for tok, s := range m.slices {
		if slices.Contains(states, s.state) {
			all = append(all, tok)
		}
	}
	if len(all) == 0 {
		return Token{}, nil, false
	}
	slices.SortFunc(all, Token.Compare)
	tok := rapid.SampledFrom(all).Draw(t, "token")
	return tok, m.slices[tok], true
}

// step makes one change of state.
func (m *ledgerModel) step(to AllocationState, do func(Token), from ...AllocationState) func(*rapid.T) {
	return func(t *rapid.T) {
		tok, s, ok := m.pick(t, from...)
		if !ok {
			t.Skip("nobody can")
		}
		do(tok)
		s.state = to
	}
}

func (m *ledgerModel) exit(t *rapid.T) {
	tok, s, ok := m.pick(t, AllocationCommitted, AllocationPrepared, AllocationStarted, AllocationStopping)
	if !ok {
		t.Skip("nobody can")
	}
	for _, g := range s.grants {
		if !s.gone[g.Rank] {
			m.l.Exit(tok, g.Rank)
			s.gone[g.Rank] = true
			break
		}
	}
	if len(s.gone) == len(s.grants) {
		m.l.End(tok)
		s.state = AllocationEnded
	}
}

func (m *ledgerModel) abort(t *rapid.T) {
	tok, _, ok := m.pick(t, AllocationReserved)
	if !ok || rapid.Bool().Draw(t, "unknown") {
		m.next++
		tok = Token{Epoch: 1, Counter: m.next}
	}
	m.l.Abort(tok, m.now)
	delete(m.slices, tok)
	m.tombs[tok] = false
}

func (m *ledgerModel) expire(t *rapid.T) {
	m.now += rapid.Int64Range(0, 15e9).Draw(t, "wait")
	m.l.Expire(m.now)
	for tok, s := range m.slices {
		if s.state == AllocationReserved && s.expires <= m.now {
			delete(m.slices, tok)
			m.tombs[tok] = false
		}
	}
}

func (m *ledgerModel) forget(t *rapid.T) {
	tok, _, ok := m.pick(t, AllocationEnded)
	if !ok {
		t.Skip("nobody can")
	}
	m.l.Forget(tok, m.now)
	delete(m.slices, tok)
	m.tombs[tok] = true
}

func (m *ledgerModel) fault(t *rapid.T) {
	if len(m.gpus) == 0 {
		t.Skip("no device")
	}
	id := rapid.SampledFrom(m.gpus).Draw(t, "gpu")
	if m.withdrawn[id] {
		m.l.Restore(id)
		delete(m.withdrawn, id)
	} else {
		m.l.Withdraw(id)
		m.withdrawn[id] = true
	}
}

// restart creates a new ledger from the data that a disk would have.
func (m *ledgerModel) restart(t *rapid.T) {
	old := m.l
	m.l = testLedger(len(m.gpus))
	m.tombs = map[Token]bool{} // tombstones belong to one incarnation
	for _, s := range old.Allocations() {
		if s.State == AllocationReserved {
			delete(m.slices, s.Token)
		} else if err := m.l.Adopt(*s); err != nil {
			t.Fatalf("%v: %v", s.Token, err)
		}
	}
	for _, id := range old.WithdrawnGPUs() {
		m.l.Withdraw(id)
	}
}

func (m *ledgerModel) check(t *rapid.T) {
	if err := m.l.Check(); err != nil {
		t.Fatal(err)
	}
	if got, want := m.l.Books(), m.books(); got != want {
		t.Fatalf("the ledger has %+v, the model %+v", got, want)
	}
	if len(m.l.Allocations()) != len(m.slices) {
		t.Fatalf("the ledger has %d slices, the model %d", len(m.l.Allocations()), len(m.slices))
	}
	for tok, s := range m.slices {
		if l := m.l.Allocation(tok); l == nil || l.State != s.state {
			t.Fatalf("%v: the ledger has %v, the model %v", tok, l, s.state)
		}
	}
	for tok, ran := range m.tombs {
		if got := m.l.Past(tok); !got.Over() || (got == PastRan) != ran {
			t.Fatalf("%v: past %v, ran %v", tok, got, ran)
		}
	}
	for _, s := range m.l.FreeShares() {
		if m.withdrawn[s.GPU] || s.Milli != WholeGPU-m.used(s.GPU) {
			t.Fatalf("%s has %d free, the model says %d", s.GPU, s.Milli, WholeGPU-m.used(s.GPU))
		}
	}
}

// TestLedgerModel compares random operations with the model.
func TestLedgerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newLedgerModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"reserve": m.reserve,
			"commit":  m.step(AllocationCommitted, func(k Token) { m.l.Commit(k) }, AllocationReserved),
			"prepare": m.step(AllocationPrepared, func(k Token) { m.l.Prepare(k) }, AllocationCommitted),
			"start":   m.step(AllocationStarted, func(k Token) { m.l.Start(k) }, AllocationPrepared),
			"stop": m.step(AllocationStopping, func(k Token) { m.l.Stop(k) },
				AllocationCommitted, AllocationPrepared, AllocationStarted),
			"exit":    m.exit,
			"abort":   m.abort,
			"expire":  m.expire,
			"forget":  m.forget,
			"fault":   m.fault,
			"restart": m.restart,
		})
	})
}

// TestLedgerSameChoice checks that equal ledgers make equal choices, whatever their history.
func TestLedgerSameChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := testLedger(8), testLedger(8)
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			c := claim(uint64(i+1), rapid.SampledFrom([]int64{200, 500, 1000, 2000}).Draw(t, "gpu"))
			sa, _ := a.Reserve(c, 0)
			b.Reserve(c, 0)
			if sa != nil && rapid.Bool().Draw(t, "abort") {
				a.Abort(c.Token, 0)
				b.Abort(c.Token, 0)
			}
		}
		c := claim(99, 1500)
		sa, _ := a.Reserve(c, 0)
		sb, _ := b.Reserve(c, 0)
		if (sa == nil) != (sb == nil) || sa != nil && granted(sa) != granted(sb) {
			t.Fatalf("%v and %v", sa, sb)
		}
	})
}
