package sqlite

import (
	"testing"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/storetest"
)

// This file owns what SQLite costs.

func BenchmarkSQLite(b *testing.B) {
	storetest.Benchmarks(b, func(b *testing.B) store.Store { return fresh(b) })
}
