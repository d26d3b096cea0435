// Package heap provides a heap. It is pure, and compares items without interfaces.
package heap

// This file has a binary heap. It can report the position of each item, so that an item in the middle can be removed.

// Heap is a binary heap with the least item first.
type Heap[T any] struct {
	Items  []T
	Before func(a, b T) bool
	Moved  func(item T, at int) // nil if not needed; position -1 means removed
}

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.Items = append(h.Items, item)
	h.put(item, len(h.Items)-1)
	h.Up(len(h.Items) - 1)
}

// Remove removes the item at a position.
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

// Up moves the item at a position forward after its key has decreased.
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

// Down moves the item at a position back after its key has increased.
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
