package topology

import "slices"

// This file owns tombstones: tokens that are over here, so that a message that
// comes late or twice cannot bring them back. Each is kept for a while, and there
// are never more than a limit. What is dropped raises the floor: a token at or
// below it that has no slice counts as over as well. Tokens grow, so the floor refuses at most an attempt that was made
// long ago and never came here, and a refusal is always safe. Without the floor, a replayed gang could start again once
// its tombstone is forgotten. Of a token below the floor only its end is known: neither that it ran nor that it never
// did.

// tombstoneLimit bounds the memory: 32 bytes each, half a megabyte.
const tombstoneLimit = 16_384

// Past says what a node remembers of a token that has no allocation there.
type Past uint8

// Each but PastNone is over for good.
const (
	PastNone      Past = iota // unknown: it may still come
	PastLapsed                // it was reserved at most
	PastRan                   // it had been committed
	PastForgotten             // below the floor: nobody knows how it ended
)

// Over reports whether the token must never be taken up again.
func (p Past) Over() bool { return p != PastNone }

type tombstone struct {
	token Token
	at    int64
	ran   bool // it had been committed here
}

type tombstones struct {
	ageNs   int64
	list    []tombstone // by token
	floor   Token
	sweepAt int64
}

// find looks at the end first: tokens grow, and what is new comes after all that is over.
func (t *tombstones) find(token Token) (int, bool) {
	if last := len(t.list) - 1; last < 0 || t.list[last].token.Less(token) {
		return last + 1, false
	}
	return slices.BinarySearchFunc(t.list, token, func(a tombstone, b Token) int { return a.token.Compare(b) })
}

func (t *tombstones) past(token Token) Past {
	i, ok := t.find(token)
	switch {
	case ok && t.list[i].ran:
		return PastRan
	case ok:
		return PastLapsed
	case !t.floor.Less(token):
		return PastForgotten
	}
	return PastNone
}

// add leaves a tombstone, or renews one; a token that had run stays marked as such.
func (t *tombstones) add(token Token, ran bool, now int64) {
	i, ok := t.find(token)
	if ok {
		t.list[i].at = now
		t.list[i].ran = t.list[i].ran || ran
		return
	}
	t.list = slices.Insert(t.list, i, tombstone{token, now, ran})
	t.sweep(now)
}

// sweep drops what is old enough, and the lowest tokens when there are too many:
// many at once and then none for a while, since each time moves the whole list.
func (t *tombstones) sweep(now int64) {
	if now >= t.sweepAt {
		t.sweepAt = now + t.ageNs/8
		t.list = slices.DeleteFunc(t.list, func(s tombstone) bool { return now-s.at >= t.ageNs && t.raise(s.token) })
	}
	if len(t.list) > tombstoneLimit {
		many := tombstoneLimit / 8
		t.raise(t.list[many-1].token)
		t.list = slices.Delete(t.list, 0, many)
	}
}

func (t *tombstones) raise(token Token) bool {
	if t.floor.Less(token) {
		t.floor = token
	}
	return true
}
