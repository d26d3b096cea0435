package postgres

import (
	"testing"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/storetest"
)

// This file owns what PostgreSQL costs, on the same machine.

func BenchmarkPostgres(b *testing.B) {
	storetest.Benchmarks(b, func(b *testing.B) store.Store { return fresh(b) })
}
