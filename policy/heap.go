package policy

// This file owns a binary heap whose elements may learn where they stand, so
// that one in the middle can be taken out.

type heap[T any] struct {
	items  []T
	before func(a, b T) bool
	moved  func(item T, at int) // nil when nobody needs to know; -1 is out
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.put(item, len(h.items)-1)
	h.up(len(h.items) - 1)
}

// remove takes out the element at a place.
func (h *heap[T]) remove(at int) {
	item, last := h.items[at], len(h.items)-1
	h.put(h.items[last], at)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if at < last {
		h.up(at)
		h.down(at)
	}
	if h.moved != nil {
		h.moved(item, -1)
	}
}

func (h *heap[T]) put(item T, at int) {
	h.items[at] = item
	if h.moved != nil {
		h.moved(item, at)
	}
}

func (h *heap[T]) up(at int) {
	for at > 0 {
		above := (at - 1) / 2
		if !h.before(h.items[at], h.items[above]) {
			return
		}
		h.swap(at, above)
		at = above
	}
}

func (h *heap[T]) down(at int) {
	for {
		least := at
		for _, below := range [2]int{2*at + 1, 2*at + 2} {
			if below < len(h.items) && h.before(h.items[below], h.items[least]) {
				least = below
			}
		}
		if least == at {
			return
		}
		h.swap(at, least)
		at = least
	}
}

func (h *heap[T]) swap(i, j int) {
	a, b := h.items[i], h.items[j]
	h.put(b, i)
	h.put(a, j)
}
