package postgres

import (
	"flag"
	"testing"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/storetest"
)

// This file owns what PostgreSQL costs.

var past = flag.Int("past", 100_000, "how many jobs are over in BenchmarkPast; 10,000 with -short")

func BenchmarkPostgres(b *testing.B) {
	storetest.Benchmarks(b, func(b *testing.B) store.Store { return fresh(b) })
}

func BenchmarkPast(b *testing.B) {
	jobs := *past
	if testing.Short() {
		jobs = 10_000
	}
	s := fresh(b)
	s.options.Lease = 0 // the next process has another name
	storetest.BenchmarkPast(b, s, func() store.Store {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = opened(b, s.options)
		return s
	}, jobs)
}
