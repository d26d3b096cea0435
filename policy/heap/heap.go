// Package heap keeps the least of many at hand. It is pure, and compares without interfaces.
package heap

// This file owns a binary heap whose elements may learn where they stand, so
// that one in the middle can be taken out.

// Heap has the least of its items first.
type Heap[T any] struct {
	Items  []T
	Before func(a, b T) bool
	Moved  func(item T, at int) // nil when nobody needs to know; -1 is out
}

// Push enters an element.
func (h *Heap[T]) Push(item T) {
	h.Items = append(h.Items, item)
	h.put(item, len(h.Items)-1)
	h.Up(len(h.Items) - 1)
}

// Remove takes out the element at a place.
func (h *Heap[T]) Remove(at int) {
	item, last := h.Items[at], len(h.Items)-1
	h.put(h.Items[last], at)
	var none T
	h.Items[last] = none
	h.Items = h.Items[:last]
	if at < last {
		h.Up(at)
		h.Down(at)
	}
	if h.Moved != nil {
		h.Moved(item, -1)
	}
}

func (h *Heap[T]) put(item T, at int) {
	h.Items[at] = item
	if h.Moved != nil {
		h.Moved(item, at)
	}
}

// Up moves the element at a place forward, where it has become less.
func (h *Heap[T]) Up(at int) {
	for at > 0 {
		above := (at - 1) / 2
		if !h.Before(h.Items[at], h.Items[above]) {
			return
		}
		h.swap(at, above)
		at = above
	}
}

// Down moves the element at a place back, where it has become more.
func (h *Heap[T]) Down(at int) {
	for {
		least := at
		for _, below := range [2]int{2*at + 1, 2*at + 2} {
			if below < len(h.Items) && h.Before(h.Items[below], h.Items[least]) {
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

func (h *Heap[T]) swap(i, j int) {
	a, b := h.Items[i], h.Items[j]
	h.put(b, i)
	h.put(a, j)
}
