package topology

import "slices"

// This file has the tombstones: tokens that have ended on this node. A tombstone prevents a late or repeated message
// from reviving its token. Tombstones are kept for a while, and their number is limited. Removing a tombstone raises
// the floor. A token at or below the floor without an allocation counts as ended. Tokens only grow, so the floor
// refuses at most an old attempt that never reached this node, and a refusal is always safe. Without the floor, a
// replayed gang could start again after its tombstone is removed. For a token below the floor, the ledger does not know
// whether it ran.

// tombstoneLimit limits the memory to half a megabyte, at 32 bytes per tombstone.
const tombstoneLimit = 16_384

// Past is the knowledge about a token without an allocation on this node.
type Past uint8

// All values except PastNone mean that the token has ended.
const (
	PastNone      Past = iota // unknown: it may still arrive
	PastLapsed                // at most reserved
	PastRan                   // committed
	PastForgotten             // below the floor: its result is unknown
)

// Over reports whether the token must never be used again.
func (p Past) Over() bool { return p != PastNone }

type tombstone struct {
	token Token
	at    int64
	ran   bool // it was committed on this node
}

type tombstones struct {
	ageNs   int64
	list    []tombstone // by token
	floor   Token
	sweepAt int64
}

// find checks the end of the list first, because tokens grow and new ones come after all ended ones.
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

// add leaves a tombstone or renews it. A token that ran stays marked as such.
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

// sweep removes old tombstones. If there are too many, it also removes those with the lowest tokens. It removes many at
// once, because each removal moves the complete list.
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
