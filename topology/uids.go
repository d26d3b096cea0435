package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// This file owns the numbers of users that jobs are given which name none: the range, and which of
// them comes next. One is given by the order of arrival, which only grows and is on disk, so that a
// next leader goes on where the last one was, and none comes again before the range has gone round.

// UIDRange is the numbers from First to Last; the zero is none.
type UIDRange struct{ First, Last uint32 }

// maxUIDs bounds a range: more than a cluster has jobs, and no longer walk than a leader can make.
const maxUIDs = 100_000_000

// minUID is above what machines use for themselves: accounts, services, and nobody twice.
const minUID = 65_536

// NoUIDs is how a range of none is written, and DefaultUIDs is what schedulers and machines have alike.
const (
	NoUIDs      = "none"
	DefaultUIDs = "2000000-2999999"
)

// ParseUIDRange reads a range as 2000000-2999999, or none.
func ParseUIDRange(text string) (UIDRange, error) {
	if text == NoUIDs {
		return UIDRange{}, nil
	}
	low, high, ok := strings.Cut(text, "-")
	first, wrong := strconv.ParseUint(low, 10, 32)
	last, err := strconv.ParseUint(high, 10, 32)
	switch {
	case !ok || wrong != nil || err != nil || last < first:
		return UIDRange{}, fmt.Errorf("%q must be first-last, as 2000000-2999999, or %s", text, NoUIDs)
	case first < minUID || last >= 1<<32-2:
		return UIDRange{}, fmt.Errorf("%q is outside of %d-%d, where no machine has users of its own",
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

// Has reports whether a number is of the range. None has 0.
func (r UIDRange) Has(uid uint32) bool { return uid != 0 && r.First <= uid && uid <= r.Last }

// String is the range as ParseUIDRange reads it.
func (r UIDRange) String() string {
	if r.Len() == 0 {
		return NoUIDs
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// UIDs is a range, and what of it is held: by jobs that are not over, and by machines on which
// anything lies under it. One may be held several times.
type UIDs struct {
	UIDRange
	holds map[uint32]int32
}

// NewUIDs begins with a range of which nothing is held.
func NewUIDs(r UIDRange) *UIDs { return &UIDs{r, map[uint32]int32{}} }

// Hold keeps a number from being given. One of another range is not given anyway.
func (u *UIDs) Hold(uid uint32) {
	if u != nil && u.Has(uid) {
		u.holds[uid]++
	}
}

// Release takes one hold back.
func (u *UIDs) Release(uid uint32) {
	if u == nil || !u.Has(uid) {
		return
	}
	if u.holds[uid]--; u.holds[uid] == 0 {
		delete(u.holds, uid)
	}
}

// Holds reports whether a number is held.
func (u *UIDs) Holds(uid uint32) bool { return u.holds[uid] > 0 }

// Held counts the numbers that are held.
func (u *UIDs) Held() int { return len(u.holds) }

// Next answers the first number that is not held, from the arrival's own on, and the arrival that it belongs to. One
// that is passed over is passed over for this round, so that all who come in one round pass it once together. There
// must be one.
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
