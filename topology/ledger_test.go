package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// This file has examples for each rule of the ledger of one node. ledger_model_test.go tests random orders of
// operations.

const ledgerGiB = int64(1) << 30

// testLedger returns the ledger of a node with 64 CPUs, 512 GiB and a number of devices.
func testLedger(gpus int) *Ledger {
	c := LedgerConfig{MilliCPU: 64_000, MemoryBytes: 512 * ledgerGiB, PortFirst: 30_000, PortLast: 30_002,
		TombstoneAgeNs: 600e9}
	for i := range gpus {
		c.GPUs = append(c.GPUs, GPU{ID: GPUID(fmt.Sprintf("gpu-%d", i)), Type: "h200"})
	}
	return NewLedger(c)
}

func token(n uint64) Token { return Token{Epoch: 1, Counter: n} }

// claim returns a claim with these amounts of milli-GPU, one per rank, and one CPU and one GiB per rank.
func claim(t uint64, milliGPU ...int64) Claim {
	c := Claim{Token: token(t), Job: "job", TTLNs: 10e9}
	for i, m := range milliGPU {
		c.Members = append(c.Members, Member{Rank(i), Resources{1000, ledgerGiB, m}})
	}
	return c
}

// sound fails the test if the ledger is inconsistent.
func sound(t testing.TB, l *Ledger) {
	t.Helper()
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
}

func mustReserve(t testing.TB, l *Ledger, c Claim, now int64) *Allocation {
	t.Helper()
	s, short := l.Reserve(c, now)
	if short != nil {
		t.Fatalf("reserve %v: %v", c.Token, short)
	}
	sound(t, l)
	return s
}

func wantLack(t *testing.T, l *Ledger, c Claim, want Lack) {
	t.Helper()
	before := l.Version()
	_, short := l.Reserve(c, 0)
	if short == nil || short.Lack != want || short.String() == "" {
		t.Fatalf("reserve %+v: %v, want lack %d", c, short, want)
	}
	if l.Version() != before {
		t.Fatal("a refusal changed the ledger")
	}
	sound(t, l)
}

// wantPanic runs a step that only a faulty caller makes, and expects a panic.
func wantPanic(t *testing.T, what string, step func()) {
	t.Helper()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), what) {
			t.Fatalf("recovered %v, want a panic with %q", r, what)
		}
	}()
	step()
}

// granted returns all shares of an allocation as text.
func granted(s *Allocation) string {
	var b strings.Builder
	for _, g := range s.Grants {
		fmt.Fprintf(&b, "%d:", g.Rank)
		for _, h := range g.GPUs {
			fmt.Fprintf(&b, " %s=%d", h.GPU, h.Milli)
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestLedgerChoice(t *testing.T) {
	for _, c := range []struct {
		name   string
		gpus   int
		before []int64 // earlier claims with one rank each
		claim  []int64
		want   string
	}{
		{"the lowest whole devices", 4, []int64{1000}, []int64{2000}, "0: gpu-1=1000 gpu-2=1000"},
		{"each rank its own", 4, nil, []int64{1000, 2000}, "0: gpu-0=1000; 1: gpu-1=1000 gpu-2=1000"},
		{"a fraction breaks the first whole device", 2, nil, []int64{250}, "0: gpu-0=250"},
		{"a fraction joins a shared device", 4, []int64{1000, 250}, []int64{500}, "0: gpu-1=500"},
		{"the smallest part that fits", 4, []int64{300, 800}, []int64{200}, "0: gpu-1=200"},
		{"whole devices before fractions", 2, []int64{600}, []int64{500, 1000}, ""},
		{"both in one rank", 4, []int64{600}, []int64{2300}, "0: gpu-1=1000 gpu-2=1000 gpu-0=300"},
		{"no device at all", 0, nil, []int64{0, 0}, "0:; 1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLedger(c.gpus)
			for i, m := range c.before {
				mustReserve(t, l, claim(uint64(i+1), m), 0)
			}
			if c.want == "" {
				wantLack(t, l, claim(99, c.claim...), LackGPU)
			} else if got := granted(mustReserve(t, l, claim(99, c.claim...), 0)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestLedgerShortage(t *testing.T) {
	l := testLedger(2)
	wantLack(t, l, claim(1, 3000), LackGPU)
	wantLack(t, l, claim(1, 1500, 600), LackGPU)
	wantLack(t, l, Claim{Token: token(1), Members: []Member{{0, Resources{64_001, 0, 0}}}}, LackCPU)
	wantLack(t, l, Claim{Token: token(1), Members: []Member{{0, Resources{0, 513 * ledgerGiB, 0}}}}, LackMemory)
	wantLack(t, l, Claim{Token: token(1), Members: []Member{{0, Resources{0, 0, 500}}}, GPUType: "mi300"}, LackGPUType)
	wantLack(t, l, Claim{Token: token(1)}, LackSense)
	wantLack(t, l, Claim{Token: token(1), Members: []Member{{0, Resources{-1, 0, 0}}}}, LackSense)
	wantLack(t, l, Claim{Token: token(1), Members: []Member{{1, Resources{}}, {1, Resources{}}}}, LackSense)
	huge := Resources{MilliCPU: 1 << 62, MemoryBytes: 1 << 62}
	wantLack(t, l, Claim{Token: token(1), Members: []Member{{0, huge}, {1, huge}, {2, huge}}}, LackCPU)
	for i := range 3 {
		mustReserve(t, l, Claim{Token: token(uint64(i + 1)), Members: []Member{{0, Resources{}}}, WantPort: true, TTLNs: 1},
			0)
	}
	wantLack(t, l, Claim{Token: token(9), Members: []Member{{0, Resources{}}}, WantPort: true}, LackPort)
}

// TestLedgerPortsInTurn checks that a port which has just become free is the last one to be assigned again.
func TestLedgerPortsInTurn(t *testing.T) {
	l := testLedger(0)
	var got []int32
	for i := range 6 {
		c := claim(uint64(i+1), 0)
		c.WantPort = true
		got = append(got, mustReserve(t, l, c, 0).Port)
		l.Abort(c.Token, 0)
	}
	if want := []int32{30_000, 30_001, 30_002, 30_000, 30_001, 30_002}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 4 { // an ended allocation that waits for Forget has no port
		c := claim(uint64(i+10), 0)
		c.WantPort = true
		mustReserve(t, l, c, 0)
		l.Commit(c.Token)
		l.Exit(c.Token, 0)
		l.End(c.Token)
	}
}

// TestLedgerLife moves an allocation through its states and checks the sums.
func TestLedgerLife(t *testing.T) {
	l := testLedger(8)
	mustReserve(t, l, claim(1, 4000, 4000), 0)
	whole := Resources{2000, 2 * ledgerGiB, 8000}
	steps := []struct {
		name string
		do   func()
		in   func(Books) Resources
	}{
		{"reserved", func() {}, func(b Books) Resources { return b.Reserved }},
		{"committed", func() { l.Commit(token(1)) }, func(b Books) Resources { return b.Committed }},
		{"prepared", func() { l.Prepare(token(1)) }, func(b Books) Resources { return b.Committed }},
		{"started", func() { l.Start(token(1)) }, func(b Books) Resources { return b.Committed }},
		{"one gone", func() { l.Exit(token(1), 0) }, func(b Books) Resources { return b.Committed }},
		{"stopping", func() { l.Stop(token(1)) }, func(b Books) Resources { return b.Stopping }},
		{"all gone", func() { l.Exit(token(1), 1) }, func(b Books) Resources { return b.Stopping }},
		{"over", func() { l.End(token(1)) }, func(b Books) Resources { return b.Total.Minus(b.Free).Plus(whole) }},
	}
	version := l.Version() - 1
	for _, s := range steps {
		s.do()
		sound(t, l)
		if got := s.in(l.Books()); got != whole {
			t.Errorf("%s: %v, want %v", s.name, got, whole)
		}
		if l.Version() <= version {
			t.Errorf("%s: the version did not grow", s.name)
		}
		version = l.Version()
	}
	l.Forget(token(1), 0)
	if l.Past(token(1)) != PastRan || len(l.Allocations()) != 0 {
		t.Error("a forgotten slice left no tombstone that it had run")
	}
}

// TestLedgerFreedOnEvidence checks that only End frees committed resources, and that End requires the confirmed exit of
// every rank.
func TestLedgerFreedOnEvidence(t *testing.T) {
	l := testLedger(2)
	mustReserve(t, l, claim(1, 1000, 1000), 0)
	l.Commit(token(1))
	l.Exit(token(1), 0)
	if l.Books().Free.MilliGPU != 0 || l.Allocation(token(1)).AllGone() {
		t.Error("a rank's exit freed something")
	}
	wantPanic(t, "not all exits are confirmed", func() { l.End(token(1)) })
	wantPanic(t, "has already ended", func() { l.Exit(token(1), 0) })
	wantPanic(t, "state is committed", func() { l.Abort(token(1), 0) })
	wantPanic(t, "state is committed", func() { l.Start(token(1)) })
	wantPanic(t, "state is committed", func() { l.Forget(token(1), 0) })
	wantPanic(t, "unknown allocation", func() { l.Commit(token(2)) })
	wantPanic(t, "token is not new", func() { l.Reserve(claim(1, 0), 0) })
	sound(t, l)
}

func TestLedgerExpiry(t *testing.T) {
	l := testLedger(1)
	mustReserve(t, l, claim(1, 500), 0)
	mustReserve(t, l, claim(2, 500), 5e9)
	if at, any := l.NextExpiry(); !any || at != 10e9 {
		t.Errorf("next expiry %d %v", at, any)
	}
	if got := l.Expire(10e9 - 1); got != nil {
		t.Errorf("expired early: %v", got)
	}
	if got := l.Expire(10e9); !slices.Equal(got, []Token{token(1)}) {
		t.Errorf("expired %v", got)
	}
	sound(t, l)
	if l.Past(token(1)) != PastLapsed {
		t.Error("an expired reservation left no tombstone, or one that says it ran")
	}
	l.Commit(token(2))
	if _, any := l.NextExpiry(); any || l.Expire(1e18) != nil {
		t.Error("a committed slice expires")
	}
}

// TestLedgerTombstones checks that tombstones are kept long enough, that their number is limited, and that the floor
// refuses the removed ones.
func TestLedgerTombstones(t *testing.T) {
	l := testLedger(0)
	l.Abort(token(5), 0)
	l.Abort(token(7), 599e9)
	if l.Past(token(6)).Over() {
		t.Error("an unknown token is over")
	}
	l.Abort(token(5), 599e9-1) // repeated: its age starts again
	l.Abort(token(3), 599e9)
	if l.Past(token(5)) != PastLapsed {
		t.Error("a tombstone was dropped before its time")
	}
	l.Abort(token(3), 1100e9)
	l.Abort(token(8), 1198e9)
	if l.Past(token(5)) != PastLapsed {
		t.Error("a tombstone that was renewed was dropped by its first age")
	}
	l = testLedger(0)
	l.Abort(token(5), 0)
	l.Abort(token(7), 599e9)
	l.Abort(token(8), 700e9) // the sweep removes 5
	l.Abort(token(4), 700e9) // a late message about a removed tombstone
	for n, want := range map[uint64]Past{4: PastForgotten, 5: PastForgotten, 6: PastNone, 7: PastLapsed, 8: PastLapsed,
		9: PastNone} {
		if got := l.Past(token(n)); got != want {
			t.Errorf("token %d: past %v, want %v", n, got, want)
		}
	}
	for n := range uint64(tombstoneLimit + 10) {
		l.Abort(token(100+n), 700e9)
	}
	if n := len(l.tombs.list); n > tombstoneLimit || n < tombstoneLimit/2 {
		t.Errorf("%d tombstones", n)
	}
	if l.Past(token(100)) != PastForgotten {
		t.Error("a tombstone that was dropped for lack of room is no longer refused")
	}
}

// TestLedgerGPUFault checks that a device which faults in use counts as stopping, and later as withdrawn.
func TestLedgerGPUFault(t *testing.T) {
	l := testLedger(4)
	mustReserve(t, l, claim(1, 2000), 0)
	l.Commit(token(1))
	if !l.Withdraw("gpu-1") || l.Withdraw("gpu-1") || !l.Withdraw("gpu-3") || l.Withdraw("gpu-9") {
		t.Error("what changed is told wrongly")
	}
	sound(t, l)
	if b := l.Books(); b.Committed.MilliGPU != 1000 || b.Stopping.MilliGPU != 1000 || b.Withdrawn.MilliGPU != 1000 ||
		b.Free.MilliGPU != 1000 {
		t.Errorf("in use: %+v", b)
	}
	l.Exit(token(1), 0)
	l.End(token(1))
	sound(t, l)
	if b := l.Books(); b.Withdrawn.MilliGPU != 2000 || b.Free.MilliGPU != 2000 {
		t.Errorf("after its end: %+v", b)
	}
	wantLack(t, l, claim(2, 3000), LackGPU)
	if !l.Restore("gpu-1") || l.Restore("gpu-1") || l.Restore("gpu-0") {
		t.Error("what changed is told wrongly")
	}
	if got := granted(mustReserve(t, l, claim(3, 3000), 0)); got != "0: gpu-0=1000 gpu-1=1000 gpu-2=1000" {
		t.Errorf("after its return: %s", got)
	}
}

// TestLedgerAdoptShrunk checks allocations that are read on a node which has lost resources.
func TestLedgerAdoptShrunk(t *testing.T) {
	before := testLedger(4)
	mustReserve(t, before, claim(1, 2000, 2000), 0)
	before.Commit(token(1))
	l := NewLedger(LedgerConfig{MilliCPU: 1500, MemoryBytes: ledgerGiB,
		GPUs: []GPU{{ID: "gpu-0"}, {ID: "gpu-1"}, {ID: "gpu-2"}}})
	if err := l.Adopt(*before.Allocation(token(1))); err != nil {
		t.Fatal(err)
	}
	sound(t, l)
	if b := l.Books(); b.Free != (Resources{}) || b.Total != (Resources{2000, 2 * ledgerGiB, 4000}) {
		t.Errorf("with the slice: %+v", b)
	}
	if got := l.WithdrawnGPUs(); !slices.Equal(got, []GPUID{"gpu-3"}) {
		t.Errorf("withdrawn: %v", got)
	}
	l.Exit(token(1), 0)
	l.Exit(token(1), 1)
	l.End(token(1))
	sound(t, l)
	if b := l.Books(); b.Free != (Resources{1500, ledgerGiB, 3000}) || b.Withdrawn.MilliGPU != 1000 {
		t.Errorf("after its end: %+v", b)
	}
	if l.Restore("gpu-3") {
		t.Error("a device that is not there was put back into service")
	}
}

// TestLedgerAdoptRefuses checks that a record which the program cannot have written is refused.
func TestLedgerAdoptRefuses(t *testing.T) {
	one := func(milli, share int64, gpu GPUID) []Grant {
		return []Grant{{Rank: 0, Amount: Resources{MilliGPU: milli}, GPUs: []Share{{gpu, share}}}}
	}
	for name, s := range map[string]Allocation{
		"reserved":         {Token: token(9), State: AllocationReserved, Grants: one(500, 500, "gpu-1")},
		"no ranks":         {Token: token(9), State: AllocationStarted},
		"known":            {Token: token(1), State: AllocationStarted, Grants: one(500, 500, "gpu-1")},
		"another's device": {Token: token(9), State: AllocationStarted, Grants: one(1000, 1000, "gpu-0")},
		"unequal sums":     {Token: token(9), State: AllocationStarted, Grants: one(1000, 500, "gpu-1")},
		"too much":         {Token: token(9), State: AllocationStarted, Grants: one(2000, 2000, "gpu-1")},
		"over, not gone":   {Token: token(9), State: AllocationEnded, Grants: one(500, 500, "gpu-1")},
		"another's port":   {Token: token(9), State: AllocationStarted, Port: 30_000, Grants: one(500, 500, "gpu-1")},
		"ranks twice": {Token: token(9), State: AllocationStarted,
			Grants: append(one(500, 500, "gpu-1"), one(500, 500, "gpu-1")...)},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLedger(2)
			c := claim(1, 500)
			c.WantPort = true
			mustReserve(t, l, c, 0)
			if err := l.Adopt(s); !errors.Is(err, errAdopt) {
				t.Errorf("adopted: %v", err)
			}
			sound(t, l)
		})
	}
}

// TestLedgerCheckFinds checks that every kind of inconsistency is detected.
func TestLedgerCheckFinds(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Ledger)
		want  error
	}{
		"a device twice":     {func(l *Ledger) { l.slices[1].held[0].device = 0 }, errOneOwner},
		"free too high":      {func(l *Ledger) { l.free.MilliCPU++ }, errBooksBalance},
		"committed lost":     {func(l *Ledger) { l.committed.MemoryBytes-- }, errBooksBalance},
		"a share forgotten":  {func(l *Ledger) { l.slices[0].held = nil }, errBooksBalance},
		"a rank twice":       {func(l *Ledger) { l.slices[2].Grants[1].Rank = 0 }, errOneOwner},
		"another state":      {func(l *Ledger) { l.slices[0].State = AllocationStopping }, errBooksBalance},
		"over and holding":   {func(l *Ledger) { l.slices[0].State = AllocationEnded }, errBooksBalance},
		"a port twice":       {func(l *Ledger) { l.slices[0].Port, l.slices[2].Port = 1, 1 }, errOneOwner},
		"order of tokens":    {func(l *Ledger) { l.slices[0].Token = token(8) }, errBooksBalance},
		"withdrawn unwanted": {func(l *Ledger) { l.devices[3].withdrawn = true }, errBooksBalance},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLedger(4)
			mustReserve(t, l, claim(1, 1000), 0)
			mustReserve(t, l, claim(2, 1000), 0)
			mustReserve(t, l, claim(3, 500, 500), 0)
			l.Commit(token(3))
			sound(t, l)
			c.spoil(l)
			if err := l.Check(); !errors.Is(err, c.want) {
				t.Errorf("found %v, want %v", err, c.want)
			}
		})
	}
}

func TestLedgerCapacity(t *testing.T) {
	l := testLedger(5)
	mustReserve(t, l, claim(1, 1000), 0)
	mustReserve(t, l, claim(2, 700), 0)
	mustReserve(t, l, claim(3, 400), 0)
	l.Withdraw("gpu-4")
	c := l.Capacity()
	if c.WholeGPUs != 1 || !slices.Equal(c.Parts, []int64{600, 300}) || c.MilliCPU != 61_000 ||
		c.MemoryBytes != 509*ledgerGiB {
		t.Errorf("%+v", c)
	}
}

func TestLedgerNames(t *testing.T) {
	for s, want := range map[AllocationState]string{
		AllocationReserved: "reserved", AllocationEnded: "over", 9: "SliceState(9)",
	} {
		if s.String() != want {
			t.Errorf("%d: %s", s, s)
		}
	}
}
