package heap

import (
	"cmp"
	"math/rand"
	"slices"
	"testing"
)

// item is an element that stores its position.
type item struct{ key, at int }

// TestHeap checks after each push, change and removal that the least item is first and that each item has its correct
// position.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	h := Heap[*item]{
		Before: func(a, b *item) bool { return a.key < b.key }, Moved: func(x *item, at int) { x.at = at },
	}
	var all []*item
	for range 5000 {
		switch i := r.Intn(4); {
		case i < 2 || len(all) == 0:
			x := &item{key: r.Intn(1000)}
			all = append(all, x)
			h.Push(x)
		case i == 2:
			x := all[r.Intn(len(all))]
			x.key = r.Intn(1000)
			h.Up(x.at)
			h.Down(x.at)
		default:
			at := r.Intn(len(all))
			h.Remove(all[at].at)
			if all[at].at != -1 {
				t.Fatal("what is out does not know it")
			}
			all = slices.Delete(all, at, at+1)
		}
		for at, x := range h.Items {
			if x.at != at {
				t.Fatalf("the element at %d takes itself to be at %d", at, x.at)
			}
		}
		if len(h.Items) != len(all) {
			t.Fatalf("%d are in it, want %d", len(h.Items), len(all))
		}
		if len(all) > 0 {
			least := slices.MinFunc(all, func(a, b *item) int { return cmp.Compare(a.key, b.key) })
			if h.Items[0].key != least.key {
				t.Fatalf("%d is first, and the least is %d", h.Items[0].key, least.key)
			}
		}
	}
}
