package mirror

import "sort"

// This file owns a sorted table that can be read in pages.

// orderedBlock is the number of entries at which a block is split. An insertion moves at most one block and at most the
// list of blocks. That list is shorter than the table by this factor.
const orderedBlock = 256

// ordered is a sorted table in blocks. A page can begin anywhere without a scan. In one large slice, every insertion
// would move megabytes. The zero value is empty.
type ordered[V any] struct {
	blocks [][]entry[V] // none is empty
	size   int
}

type entry[V any] struct {
	key   string
	value V
}

func (o *ordered[V]) len() int { return o.size }

// seek returns the position of a key, or the position at which to insert it.
func (o *ordered[V]) seek(key string) (block, at int, ok bool) {
	block = sort.Search(len(o.blocks), func(i int) bool { return o.blocks[i][0].key > key })
	if block > 0 {
		block--
	}
	if block == len(o.blocks) {
		return block, 0, false
	}
	b := o.blocks[block]
	at = sort.Search(len(b), func(i int) bool { return b[i].key >= key })
	return block, at, at < len(b) && b[at].key == key
}

func (o *ordered[V]) get(key string) (V, bool) {
	if block, at, ok := o.seek(key); ok {
		return o.blocks[block][at].value, true
	}
	var none V
	return none, false
}

// before counts the smaller keys.
func (o *ordered[V]) before(key string) int {
	block, at, _ := o.seek(key)
	for i := range min(block, len(o.blocks)) {
		at += len(o.blocks[i])
	}
	return at
}

// first returns the smallest key and its value. The table must not be empty.
func (o *ordered[V]) first() (string, V) {
	e := o.blocks[0][0]
	return e.key, e.value
}

func (o *ordered[V]) put(key string, value V) {
	block, at, ok := o.seek(key)
	if ok {
		o.blocks[block][at].value = value
		return
	}
	o.size++
	if len(o.blocks) == 0 {
		o.blocks = append(o.blocks, nil)
	}
	b := append(o.blocks[block], entry[V]{})
	copy(b[at+1:], b[at:])
	b[at] = entry[V]{key, value}
	o.blocks[block] = b
	if len(b) > orderedBlock {
		o.split(block)
	}
}

// split splits an overlong block in half.
func (o *ordered[V]) split(block int) {
	b := o.blocks[block]
	upper := append([]entry[V](nil), b[len(b)/2:]...)
	clear(b[len(b)/2:])
	o.blocks[block] = b[:len(b)/2]
	o.blocks = append(o.blocks, nil)
	copy(o.blocks[block+2:], o.blocks[block+1:])
	o.blocks[block+1] = upper
}

func (o *ordered[V]) remove(key string) {
	block, at, ok := o.seek(key)
	if !ok {
		return
	}
	o.size--
	b := o.blocks[block]
	copy(b[at:], b[at+1:])
	b[len(b)-1] = entry[V]{}
	o.blocks[block] = b[:len(b)-1]
	if len(b) == 1 {
		copy(o.blocks[block:], o.blocks[block+1:])
		o.blocks[len(o.blocks)-1] = nil
		o.blocks = o.blocks[:len(o.blocks)-1]
	}
}

// ascend visits entries in order from the first key that is not smaller, until visit returns false.
func (o *ordered[V]) ascend(from string, visit func(key string, value V) bool) {
	block, at, _ := o.seek(from)
	for ; block < len(o.blocks); block, at = block+1, 0 {
		for _, e := range o.blocks[block][min(at, len(o.blocks[block])):] {
			if !visit(e.key, e.value) {
				return
			}
		}
	}
}
