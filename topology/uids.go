package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// This file owns the uids for jobs that name no user: the range, and which one comes next. Uids follow the order of
// arrival, which only grows and is on disk, so that a next leader goes on where the last one was, and none is given
// again before the range has gone round.

// UIDRange is the numbers from First to Last; the zero is none.
type UIDRange struct{ First, Last uint32 }

// maxUIDs bounds a range: more than a cluster has jobs, and few enough for a leader to walk over.
const maxUIDs = 100_000_000

// minUID is above what machines use for themselves: accounts, services, and nobody twice.
const minUID = 65_536

// NoUIDs is how an empty range is written, and DefaultUIDs is the range of schedulers and machines alike.
const (
	NoUIDs      = "none"
	DefaultUIDs = "2000000-2999999"
)

// ParseUIDRange reads a range such as 2000000-2999999, or "none".
func ParseUIDRange(text string) (UIDRange, error) {
	if text == NoUIDs {
		return UIDRange{}, nil
	}
	low, high, ok := strings.Cut(text, "-")
	first, wrong := strconv.ParseUint(low, 10, 32)
	last, err := strconv.ParseUint(high, 10, 32)
	switch {
	case !ok || wrong != nil || err != nil || last < first:
		return UIDRange{}, fmt.Errorf("%q must be first-last, such as 2000000-2999999, or %s", text, NoUIDs)
	case first < minUID || last >= 1<<32-2:
		return UIDRange{}, fmt.Errorf("%q is outside %d-%d, the range without users of the nodes",
			text, minUID, uint32(1<<32-3))
	case last-first >= maxUIDs:
		return UIDRange{}, fmt.Errorf("%q has more than %d numbers", text, maxUIDs)
	}
	return UIDRange{uint32(first), uint32(last)}, nil
}

// Len is how many there are.
func (r UIDRange) Len() int {
	if r == (UIDRange{}) {
		return 0
	}
	return int(r.Last-r.First) + 1
}

// Has reports whether a number is in the range. No range has 0.
func (r UIDRange) Has(uid uint32) bool { return uid != 0 && r.First <= uid && uid <= r.Last }

// String is the range as ParseUIDRange reads it.
func (r UIDRange) String() string {
	if r.Len() == 0 {
		return NoUIDs
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// UIDs is a range, and what of it is held: by jobs that are not over, and by machines on which
// anything lies under it. A uid may be held several times.
type UIDs struct {
	UIDRange
	holds  map[uint32]int32
	owners map[uint32]string // who a number was given to, while it is held; it may not be known
	counts map[string]int    // the numbers of each of them
}

// NewUIDs makes a range of which nothing is held.
func NewUIDs(r UIDRange) *UIDs {
	return &UIDs{r, map[uint32]int32{}, map[uint32]string{}, map[string]int{}}
}

// Hold keeps a number from being given. A number outside the range is never given anyway.
func (u *UIDs) Hold(uid uint32) {
	if u != nil && u.Has(uid) {
		u.holds[uid]++
	}
}

// HoldFor does so for the job of somebody, to whom the number counts until nothing holds it any more.
func (u *UIDs) HoldFor(uid uint32, owner string) {
	u.Hold(uid)
	if _, known := u.owners[uid]; u.Has(uid) && !known && owner != "" {
		u.owners[uid] = owner
		u.counts[owner]++
	}
}

// HeldBy counts the numbers that are held by jobs of somebody, or were and lie on machines.
func (u *UIDs) HeldBy(owner string) int { return u.counts[owner] }

// Release takes one hold back.
func (u *UIDs) Release(uid uint32) {
	if u == nil || !u.Has(uid) {
		return
	}
	if u.holds[uid]--; u.holds[uid] != 0 {
		return
	}
	delete(u.holds, uid)
	if owner, known := u.owners[uid]; known {
		delete(u.owners, uid)
		if u.counts[owner]--; u.counts[owner] == 0 {
			delete(u.counts, owner)
		}
	}
}

// Holds reports whether a number is held.
func (u *UIDs) Holds(uid uint32) bool { return u.holds[uid] > 0 }

// Held counts the numbers that are held.
func (u *UIDs) Held() int { return len(u.holds) }

// Next returns the first number that is not held, from the arrival's own on, and the arrival that it belongs to. A
// number that is passed over is skipped for the whole round, so that all arrivals of a round pass it once together.
// There must be a free number.
func (u *UIDs) Next(arrival uint64) (uid uint32, at uint64) {
	n := uint64(u.Len())
	if uint64(len(u.holds)) >= n {
		panic("all uids are held")
	}
	for ; ; arrival++ {
		if uid = u.First + uint32(arrival%n); u.holds[uid] == 0 {
			return uid, arrival
		}
	}
}
