package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// This file has the uids of jobs that name no user: the range, and the choice of the next uid. Uids are assigned in the
// order of arrival, which only grows and is on disk. A new leader therefore continues where the last one stopped, and
// no uid is reused before the complete range has been used.

// UIDRange is the numbers from First to Last. The zero value is empty.
type UIDRange struct{ First, Last uint32 }

// maxUIDs limits a range. The limit exceeds the number of jobs in a cluster, and allows a leader to visit all uids.
const maxUIDs = 100_000_000

// minUID is above the uids that a node uses for itself: accounts, services, and both values of nobody.
const minUID = 65_536

// NoUIDs is the notation of an empty range. DefaultUIDs is the default range of schedulers and nodes.
const (
	NoUIDs      = "none"
	DefaultUIDs = "2000000-2999999"
)

// ParseUIDRange parses a range such as 2000000-2999999, or "none".
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

// Len returns the number of uids.
func (r UIDRange) Len() int {
	if r == (UIDRange{}) {
		return 0
	}
	return int(r.Last-r.First) + 1
}

// Has reports whether a uid is in the range. No range has 0.
func (r UIDRange) Has(uid uint32) bool { return uid != 0 && r.First <= uid && uid <= r.Last }

// String returns the notation that ParseUIDRange parses.
func (r UIDRange) String() string {
	if r.Len() == 0 {
		return NoUIDs
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// UIDs is a range with its held uids. Unfinished jobs hold uids, and so do nodes with files of a uid. A uid may be held
// several times.
type UIDs struct {
	UIDRange
	holds  map[uint32]int32
	owners map[uint32]string // owner of a held uid, if known
	counts map[string]int    // number of held uids by owner
}

// NewUIDs returns a range without held uids.
func NewUIDs(r UIDRange) *UIDs {
	return &UIDs{r, map[uint32]int32{}, map[uint32]string{}, map[string]int{}}
}

// Hold prevents a uid from being assigned. It ignores a uid outside of the range, which is never assigned.
func (u *UIDs) Hold(uid uint32) {
	if u != nil && u.Has(uid) {
		u.holds[uid]++
	}
}

// HoldFor holds a uid for a job of an owner. The uid counts for that owner until nothing holds it.
func (u *UIDs) HoldFor(uid uint32, owner string) {
	u.Hold(uid)
	if _, known := u.owners[uid]; u.Has(uid) && !known && owner != "" {
		u.owners[uid] = owner
		u.counts[owner]++
	}
}

// HeldBy returns the number of uids that count for an owner, including those of files that remain on nodes.
func (u *UIDs) HeldBy(owner string) int { return u.counts[owner] }

// Release ends one hold.
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

// Holds reports whether a uid is held.
func (u *UIDs) Holds(uid uint32) bool { return u.holds[uid] > 0 }

// Held returns the number of held uids.
func (u *UIDs) Held() int { return len(u.holds) }

// Next returns the first free uid, starting from the arrival's own, and the arrival that it belongs to. A skipped uid
// stays skipped for the complete round, so that later arrivals of the round do not search it again. At least one uid
// must be free.
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
