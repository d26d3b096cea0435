package store_test

import (
	"testing"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Contract(t, func(*testing.T) (store.Store, func() store.Store) {
		m := store.NewMemory()
		return m, func() store.Store { m.Crash(); return m }
	}, func(_ *testing.T, s store.Store, table, id string) { s.(*store.Memory).Damage(table, id) })
}
