package topology

import "testing"

// This file has the benchmarks of the ledger: phase one, the life of an allocation, and the check that the Node runs
// after every message.

// BenchmarkLedgerReserve measures phase one and its end on a node with four other allocations.
func BenchmarkLedgerReserve(b *testing.B) {
	l := testLedger(8)
	for i := range 4 {
		mustReserve(b, l, claim(uint64(i+1), 1000), 0)
	}
	c := claim(0, 4000)
	n := uint64(100)
	for b.Loop() {
		n++
		c.Token = token(n)
		l.Reserve(c, int64(n)*1e6)
		l.Abort(c.Token, int64(n)*1e6)
	}
}

// BenchmarkLedgerCheck measures the check that the Node runs after every message.
func BenchmarkLedgerCheck(b *testing.B) {
	l := testLedger(8)
	for i := range 8 {
		mustReserve(b, l, claim(uint64(i+1), 1000), 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLedgerLife measures an allocation from Reserve to Forget.
func BenchmarkLedgerLife(b *testing.B) {
	l := testLedger(8)
	c := claim(0, 8000)
	n := uint64(100)
	for b.Loop() {
		n++
		t := token(n)
		c.Token = t
		l.Reserve(c, int64(n)*1e6)
		l.Commit(t)
		l.Prepare(t)
		l.Start(t)
		l.Exit(t, 0)
		l.End(t)
		l.Forget(t, int64(n)*1e6)
	}
}
