package belief

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/topology"
)

// This file tests the view of one node against the node's own ledger, and against a list of all messages.

const maker, gib = 1, int64(1) << 30

func token(n int) topology.Token { return topology.Token{Epoch: maker, Counter: uint64(n)} }

// TestPassAndClaimAgree checks that the capacity which a pass takes from the tree equals the claims. Settling the view
// after the pass then changes nothing. If the two differed, a settle would overwrite the capacity that was planned
// with.
func TestPassAndClaimAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := New([]string{"rack"}, nil)
		var machines []*Machine
		for i := range rapid.IntRange(1, 4).Draw(t, "machines") {
			m := v.Machine(topology.NodeID(fmt.Sprint("n", i)))
			gpus := rapid.Int32Range(0, 4).Draw(t, "gpus")
			m.Report(Books{Version: 1, Free: topology.Capacity{MilliCPU: 16_000, MemoryBytes: 64 * gib, WholeGPUs: gpus}})
			total := topology.Resources{MilliCPU: 16_000, MemoryBytes: 64 * gib, MilliGPU: int64(gpus) * topology.WholeGPU}
			v.Join(m, topology.Machine{ID: m.id, Place: []string{"r"}, Total: total}, Standing{Believed: true})
			machines = append(machines, m)
		}
		for n := range rapid.IntRange(1, 12).Draw(t, "gangs") {
			gpu := rapid.SampledFrom([]int64{0, 100, 250, 500, 750, 1000, 2000}).Draw(t, "gpu")
			g := topology.Gang{Replicas: 1, Each: topology.Resources{MilliCPU: 1000, MemoryBytes: gib, MilliGPU: gpu}}
			if gpu%topology.WholeGPU == 0 {
				g.Replicas = rapid.Int32Range(1, 4).Draw(t, "replicas")
			}
			p, refusal := topology.Place(v.Tree(), g)
			if refusal != nil {
				continue
			}
			v.Tree().Take(p)
			who := Lodger{Token: token(n + 1), Job: "j"}
			for _, slot := range p.Slots {
				machines[slot.Node[1]-'0'].Claim(&who, slot.Amount)
			}
			before := v.Tree().Revision()
			for _, m := range machines {
				v.Settle(m, Standing{Believed: true})
			}
			if v.Tree().Revision() != before {
				t.Fatalf("gang %d: the claims came to something else than the pass had taken", n)
			}
		}
	})
}

// saying is one message about an attempt, with its effect on the simple list.
type saying struct {
	claimed, leaving, shown bool
	answered                uint64
	amount                  int64
}

// TestClaimsStayUntilBooksShowThem plays claims, answers, ends, ledgers and restarts in every order, and compares the
// view with a list of all messages. A claim counts until a ledger arrives that is as new as the node's answer or shows
// the allocation. It also ends when the node reports that nothing is left. An attempt that has left is dropped with a
// ledger as new as that report. No attempt counts twice. The uids are held as long as their attempts.
func TestClaimsStayUntilBooksShowThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uids := topology.NewUIDs(topology.UIDRange{First: 2_000_000, Last: 2_000_099})
		v := New(nil, uids)
		m := v.Machine("n1")
		list, newest, reported, next := map[int]*saying{}, uint64(0), false, 0
		known := func() int { return rapid.IntRange(1, max(next, 1)).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				next++
				amount := rapid.Int64Range(1, 9000).Draw(t, "amount")
				who := Lodger{Token: token(next), Job: "j", UID: uint32(2_000_000 + next%100)}
				m.Claim(&who, topology.Resources{MilliCPU: amount / 2})
				m.Claim(&who, topology.Resources{MilliCPU: amount - amount/2})
				list[next] = &saying{claimed: true, amount: amount}
			},
			"answer": func(t *rapid.T) {
				n, version := known(), newest+uint64(rapid.IntRange(0, 2).Draw(t, "ahead"))
				freed := m.Answered(token(n), version)
				if s := list[n]; s != nil {
					s.answered = version
					if want := s.claimed && newest >= version; freed != want {
						t.Fatalf("answered at %d, books at %d: freed %v", version, newest, freed)
					}
					s.claimed = s.claimed && newest < version
				}
			},
			"vacate": func(t *rapid.T) {
				n, version := known(), newest+uint64(rapid.IntRange(0, 2).Draw(t, "ahead"))
				m.Vacated(token(n), version)
				if s := list[n]; s != nil && version <= newest {
					delete(list, n)
				} else if s != nil {
					s.leaving, s.answered = true, version
				}
			},
			"books": func(t *rapid.T) {
				newest, reported = newest+uint64(rapid.IntRange(1, 2).Draw(t, "newer")), true
				b := Books{Version: newest, Free: topology.Capacity{MilliCPU: 20_000}}
				for n := 1; n <= next; n++ {
					s := list[n]
					if s == nil {
						continue
					}
					if s.shown = rapid.Bool().Draw(t, "shown"); s.shown {
						b.Allocations = append(b.Allocations, Allocation{Token: token(n), Committed: true})
					}
					if s.answered > 0 && newest >= s.answered {
						if s.claimed = false; s.leaving {
							delete(list, n)
						}
					}
				}
				m.Report(b)
			},
			"restart": func(t *rapid.T) {
				m.Restart()
				newest, reported = 0, false
				for n := 1; n <= next; n++ {
					if s := list[n]; s != nil && s.leaving {
						delete(list, n)
					} else if s != nil {
						*s = saying{amount: s.amount}
					}
				}
			},
			"": func(t *rapid.T) { compareWith(t, m, uids, list, reported) },
		})
	})
}

func compareWith(t *rapid.T, m *Machine, uids *topology.UIDs, list map[int]*saying, reported bool) {
	free, held := int64(20_000), map[uint32]bool{}
	for n, s := range list { //order: only counted
		if s.claimed && !s.leaving && !s.shown {
			free -= s.amount
		}
		held[uint32(2_000_000+n%100)] = true
		if who := m.Tenant(token(n)); who == nil || who.Amount().MilliCPU != s.amount {
			t.Fatalf("attempt %d is not there as it was said", n)
		}
		if has := len(m.Held(token(n))) > 0; has != (s.claimed && !s.leaving || s.shown) {
			t.Fatalf("attempt %d is said to hold something: %v; %+v", n, has, *s)
		}
	}
	if free = max(free, 0); !reported {
		free = 0
	}
	if got := m.free(true); got.MilliCPU != free {
		t.Fatalf("%d milli-CPU are believed to be free, and %d are", got.MilliCPU, free)
	}
	if len(m.Tenants()) != len(list) || uids.Held() != len(held) {
		t.Fatalf("%d tenants and %d uids, want %d and %d", len(m.Tenants()), uids.Held(), len(list), len(held))
	}
}

// TestNothingEndsThatHasLeft: a node reports that nothing of an attempt is left, and its capacity is given to another
// attempt before the next ledger arrives. The test checks that the capacity does not become free a second time at the
// end of the first attempt. A reservation would rely on it.
func TestNothingEndsThatHasLeft(t *testing.T) {
	v := New(nil, nil)
	m := v.Machine("n1")
	m.Report(Books{Version: 1, Free: topology.Capacity{WholeGPUs: 8}})
	gone, comes := &Stay{Hard: 30, Likely: 30}, &Stay{Hard: 800, Likely: 270}
	m.Claim(&Lodger{Token: token(1), Job: "gone", Stay: gone}, topology.Resources{MilliGPU: 8000})
	m.Vacated(token(1), 3)
	if got := m.free(true); got.WholeGPUs != 8 {
		t.Errorf("%d devices are free", got.WholeGPUs)
	}
	m.Claim(&Lodger{Token: token(2), Job: "comes", Stay: comes}, topology.Resources{MilliGPU: 8000})
	if ends := m.Ends(); len(ends) != 1 || ends[0].Of != "comes" {
		t.Errorf("the ends are %+v", ends)
	}
}

// TestMoreIsClaimedThanThereIs checks that claims may exceed a ledger that does not show them yet. Nothing is free
// then, not even the rest of a device that does not exist.
func TestMoreIsClaimedThanThereIs(t *testing.T) {
	v := New(nil, nil)
	m := v.Machine("n1")
	m.Report(Books{Version: 1, Free: topology.Capacity{MilliCPU: 1000, MemoryBytes: gib, WholeGPUs: 1}})
	for n, gpu := range []int64{500, 1000, 750} {
		m.Claim(&Lodger{Token: token(n + 1)}, topology.Resources{MilliCPU: 900, MemoryBytes: gib, MilliGPU: gpu})
	}
	if got := m.free(true); got.MilliCPU != 0 || got.MemoryBytes != 0 || got.WholeGPUs != 0 ||
		!slices.Equal(got.Parts, []int64{500}) {
		t.Errorf("%+v is free, want half a device", got)
	}
	if got := m.free(false); got.MilliCPU != 0 || got.WholeGPUs != 0 || got.Parts != nil {
		t.Errorf("of a machine that is not believed %+v is free", got)
	}
}

// TestOverdue checks that a claim is overdue when the ledger shows it as committed, and an end when the ledger is as
// new as the end.
func TestOverdue(t *testing.T) {
	m := New(nil, nil).Machine("n1")
	m.Claim(&Lodger{Token: token(1)}, topology.Resources{MilliCPU: 1})
	m.Report(Books{Version: 3, Allocations: []Allocation{{Token: token(1)}}})
	if n := m.Overdue(); n != 0 {
		t.Errorf("a reservation is no claim too many: %d", n)
	}
	m.Report(Books{Version: 4, Allocations: []Allocation{{Token: token(1), Committed: true}}})
	if n := m.Overdue(); n != 1 {
		t.Errorf("a claim beside what was committed: %d", n)
	}
	m.Vacated(token(1), 6)
	if n := m.Overdue(); n != 0 {
		t.Errorf("books from before an end: %d", n)
	}
}

// TestRemoved checks that nothing is left of a removed node, and that the uids of its attempts are released.
func TestRemoved(t *testing.T) {
	uids := topology.NewUIDs(topology.UIDRange{First: 70_000, Last: 70_009})
	v := New(nil, uids)
	m := v.Machine("n1")
	m.Report(Books{Version: 2, UIDs: []uint32{70_001}, Free: topology.Capacity{MilliCPU: 1}})
	v.Join(m, topology.Machine{ID: "n1", Total: topology.Resources{MilliCPU: 1}}, Standing{Believed: true})
	m.Lodge(&Lodger{Token: token(1), UID: 70_002}, topology.Resources{MilliCPU: 1})
	if uids.Held() != 2 || v.Tree().Len() != 1 {
		t.Fatalf("%d uids, %d machines", uids.Held(), v.Tree().Len())
	}
	v.Remove(m)
	if uids.Held() != 0 || v.Tree().Len() != 0 || len(m.Tenants()) != 0 || m.Version() != 0 {
		t.Errorf("left: %d uids, %d machines, %d tenants, books of version %d", uids.Held(), v.Tree().Len(),
			len(m.Tenants()), m.Version())
	}
}

// TestBench checks that each backoff is twice as long as the last, up to a limit, and ends once. A success or a pardon
// resets the duration.
func TestBench(t *testing.T) {
	m := New(nil, nil).Machine("n1")
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		if rest := m.BackOff("why", time.Second, 5*time.Second); rest != want*time.Second || m.BackedOff() != "why" {
			t.Errorf("bench %d: %v, %q", i, rest, m.BackedOff())
		}
	}
	if !m.Return() || m.BackedOff() != "" || m.Return() {
		t.Error("a bench ends once")
	}
	if rest := m.BackOff("", time.Second, 5*time.Second); rest != 5*time.Second || m.BackedOff() != "it refused" {
		t.Errorf("after its return %v, %q", rest, m.BackedOff())
	}
	if m.DidWell(); m.BackedOff() == "" {
		t.Error("what did well elsewhere ended a bench")
	}
	if rest := m.BackOff("", time.Second, 5*time.Second); rest != time.Second {
		t.Errorf("after it did well %v", rest)
	}
	m.Pardon()
	if rest := m.BackOff("", time.Second, 5*time.Second); m.BackedOff() == "" || rest != time.Second {
		t.Errorf("after a pardon %v", rest)
	}
}

// TestEnds checks that capacity in use has the end of its attempt, whatever the node reports. Capacity that the ledger
// does not show as used has no end, because it is already free. Reading the records again adds nothing.
func TestEnds(t *testing.T) {
	m := New(nil, nil).Machine("n1")
	stay := &Stay{Hard: 50, Likely: 20}
	one, two := topology.Resources{MilliCPU: 1}, topology.Resources{MilliCPU: 2}
	for range 2 {
		m.Lodge(&Lodger{Token: token(1), Job: "j1", Stay: stay}, one, two)
	}
	m.Claim(&Lodger{Token: token(2), Stay: &Stay{Hard: 90, Likely: topology.Never}}, one)
	m.Claim(&Lodger{Token: token(3)}, one)
	claimed := topology.End{Amount: one, Hard: 90, Likely: topology.Never}
	if got := m.Ends(); !slices.Equal(got, []topology.End{claimed}) {
		t.Errorf("before its books are here: %v", got)
	}
	m.Report(Books{Version: 1, Allocations: []Allocation{
		{Token: token(1), Committed: true}, {Token: token(9), Committed: true},
	}})
	stay.Hard = 60
	want := []topology.End{
		{Amount: one, Hard: 60, Likely: 20, Of: "j1"}, {Amount: two, Hard: 60, Likely: 20, Of: "j1"}, claimed,
	}
	if got := m.Ends(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	m.Report(Books{Version: 2, Allocations: []Allocation{{Token: token(1), Committed: true, Over: true}}})
	if got := m.Ends(); !slices.Equal(got, []topology.End{claimed}) {
		t.Errorf("after it was over: %v", got)
	}
}
