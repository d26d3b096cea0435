package share

// This file records the recent usage of queues: GPU time, of which half counts after one half-life. The value changes
// only at events and has a closed form between them, so an idle queue costs nothing. The next leader gets only the
// usage of ended jobs. It counts running jobs again from their begin. While there is no leader, nothing decays. All
// values are integers, so that the next leader computes the same on another processor.

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

const (
	second = 1_000_000_000
	// halfLife (ns) is the time after which usage counts half.
	halfLife = 7 * 24 * 3600 * second
	// lifeMs is the half-life divided by the logarithm of 2, in ms: the recorded usage of a constant use of one.
	lifeMs = 872_541_961
	// oneBits is the number of fractional bits of a part.
	oneBits = 62
	// ahead is the time, in ms, for which held amounts count as already used. Without it, the queue with the least
	// usage would get all free capacity of one pass, before any usage is recorded.
	ahead = 3_600_000
)

// halves are 2 to the power of −1/2, −1/4, −1/8 and so on, as parts of 2^62.
var halves = [40]uint64{
	0x2d413cccfe779921, 0x35d13f32b5a75abd, 0x3ab031b9f7490e4c, 0x3d495f454921b30b,
	0x3ea0ecb6dc8a80cf, 0x3f4f83033d21b05d, 0x3fa784571ee3e213, 0x3fd3b2d65447b229,
	0x3fe9d59487236bb4, 0x3ff4e9d4703df843, 0x3ffa74acbdf6c9d5, 0x3ffd3a46ffc6e30f,
	0x3ffe9d1fa8010199, 0x3fff4e8ede053ad5, 0x3fffa747318376ac, 0x3fffd3a38961e6ff,
	0x3fffe9d1c0d8fd14, 0x3ffff4e8df7680c5, 0x3ffffa746f7dc0ec, 0x3ffffd3a37af8098,
	0x3ffffe9d1bd3e854, 0x3fffff4e8de8fe2c, 0x3fffffa746f44197, 0x3fffffd3a37a116b,
	0x3fffffe9d1bd04de, 0x3ffffff4e8de8179, 0x3ffffffa746f407f, 0x3ffffffd3a37a030,
	0x3ffffffe9d1bd014, 0x3fffffff4e8de809, 0x3fffffffa746f404, 0x3fffffffd3a37a02,
	0x3fffffffe9d1bd01, 0x3ffffffff4e8de81, 0x3ffffffffa746f40, 0x3ffffffffd3a37a0,
	0x3ffffffffe9d1bd0, 0x3fffffffff4e8de8, 0x3fffffffffa746f4, 0x3fffffffffd3a37a,
}

// counting returns the part of usage that still counts after a time (ns), as a part of 2^62.
func counting(passed int64) uint64 {
	whole := passed / halfLife
	if passed <= 0 {
		return 1 << oneBits
	}
	if whole >= oneBits {
		return 0
	}
	hi, lo := bits.Mul64(uint64(passed%halfLife), 1<<len(halves))
	fraction, _ := bits.Div64(hi, lo, halfLife)
	part := uint64(1) << oneBits
	for i, half := range halves {
		if fraction>>(len(halves)-1-i)&1 == 1 {
			part = partOf(part, half)
		}
	}
	return part >> whole
}

// partOf returns a part (of 2^62) of a number, rounded to the nearest.
func partOf(n, part uint64) uint64 {
	hi, lo := bits.Mul64(n, part)
	lo, carry := bits.Add64(lo, 1<<(oneBits-1), 0)
	return (hi+carry)<<(64-oneBits) | lo>>oneBits
}

// used counts the recent usage of a queue.
type used struct {
	sum  int64 // milli-GPU-milliseconds, at the last event
	rate int64 // milli-GPUs held since then
	at   int64 // time of the last event in ns
}

// now returns the usage up to a time.
func (u *used) now(now int64) int64 {
	part := counting(now - u.at)
	return int64(partOf(uint64(u.sum), part)) + spent(u.rate, part)
}

// spent returns the usage of a constant rate in milli-GPUs over a time of which this part still counts.
func spent(rate int64, part uint64) int64 {
	return int64(partOf(uint64(rate)*lifeMs, 1<<oneBits-part))
}

// change changes the held milli-GPUs from now on.
func (u *used) change(by, now int64) {
	if now > u.at {
		u.sum, u.at = u.now(now), now
	}
	u.rate += by
}

// forgive removes the usage of a size since a time.
func (u *used) forgive(size, since, now int64) {
	u.change(0, now)
	u.sum = max(u.sum-spent(size, counting(now-since)), 0)
}

// counts returns the value that orders queues: usage, plus held amounts for a while longer.
func (u *used) counts(now int64) int64 { return u.now(now) + u.rate*ahead }

// rested returns the usage up to now without held amounts.
func (u *used) rested(now int64) used { return used{sum: u.now(now), at: now} }

// lastUse caches the value that orders a queue.
type lastUse struct {
	used  used
	at, n int64
}

// Counts returns the value that orders a queue among those that borrow.
func (h *Branch) Counts(now int64) int64 {
	if h.last.used != h.used || h.last.at != now {
		h.last = lastUse{h.used, now, h.used.counts(now)}
	}
	return h.last.n
}

// maxUses is the maximum number of stored values. The smallest ones are dropped.
const maxUses = 20_000

// Use is the recent usage of a queue's ended jobs.
type Use struct {
	Queue  string
	Owner  string // if the order is Fair; "": all other owners
	Amount int64  // in milli-GPU-milliseconds, with older usage decayed
}

// Uses returns the usage of all queues, in the order of their names.
func (s *Tree) Uses(now int64) (all []Use) {
	living := s.living(now)
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		own := s.named[name].own
		rest := own.used.now(now) - living[own]
		for _, owner := range slices.Sorted(maps.Keys(own.owners)) {
			o := own.owners[owner]
			n := o.used.now(now) - living[o]
			if rest -= o.used.now(now); n > 0 {
				all = append(all, Use{name, owner, n})
			}
		}
		if rest > 0 {
			all = append(all, Use{Queue: name, Amount: rest})
		}
	}
	if len(all) > maxUses {
		slices.SortStableFunc(all, func(a, b Use) int { return cmp.Compare(b.Amount, a.Amount) })
		all = all[:maxUses]
		slices.SortFunc(all, func(a, b Use) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Owner, b.Owner))
		})
	}
	return all
}

// living sums the recorded usage of running jobs, by branch.
func (s *Tree) living(now int64) map[*Branch]int64 {
	of := map[*Branch]int64{}
	for _, x := range s.jobs { //order: a sum
		of[x.Leaf] += spent(x.Size, counting(now-x.Since))
	}
	return of
}

// Charge adds to the usage of a queue's and an owner's ended jobs.
func (s *Tree) Charge(queue, owner string, amount, now int64) {
	for h := s.Leaf(queue, owner); h != nil; h = h.Parent {
		h.used.change(0, now)
		h.used.sum += amount
	}
}

// Spend adds the usage of a job of this size that ran for a time, as if it had ended now.
func (s *Tree) Spend(queue, owner string, size, ran, now int64) {
	s.Charge(queue, owner, spent(size, counting(ran)), now)
}
