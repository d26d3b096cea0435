package sqlite

import (
	"flag"
	"testing"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/storetest"
)

// This file owns what SQLite costs.

// past is how many jobs are over: with two tasks each they take 1.7 KB, and a
// quarter of a millisecond to write.
var past = flag.Int("past", 100_000, "how many jobs are over in BenchmarkPast; 10,000 with -short")

func BenchmarkSQLite(b *testing.B) {
	storetest.Benchmarks(b, func(b *testing.B) store.Store { return fresh(b) })
}

func BenchmarkPast(b *testing.B) {
	jobs := *past
	if testing.Short() {
		jobs = 10_000
	}
	s := fresh(b)
	storetest.BenchmarkPast(b, s, func() store.Store {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = opened(b, s.path)
		return s
	}, jobs)
}
