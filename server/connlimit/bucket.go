package connlimit

import "time"

// This file owns the one bucket by which rates are held, of addresses here and of identities at the gate.

// Rate is so many a second, and so many at once: it may be exceeded for as long as what was not used of it before
// lasts, up to its burst. The zero: any number.
type Rate struct{ PerSecond, Burst int }

// Cost is the time in which there is one.
func (r Rate) Cost() time.Duration {
	if r.PerSecond == 0 {
		return 0
	}
	return time.Second / time.Duration(r.PerSecond)
}

// Bucket measures what was taken of a rate. The zero has all of its burst.
type Bucket struct {
	due time.Time // when all of it would have come at that rate
}

// Wait is how long it is until there is one of what comes once in a cost.
func (b *Bucket) Wait(cost time.Duration, burst int, now time.Time) time.Duration {
	return max(0, b.Owes(now)-cost*time.Duration(burst-1))
}

// Take takes some, or answers how long it is until there is one. Whoever has one left may take several, and owes them.
func (b *Bucket) Take(many int, cost time.Duration, burst int, now time.Time) (wait time.Duration) {
	if wait = b.Wait(cost, burst, now); wait == 0 {
		b.Owe(many, cost, now)
	}
	return wait
}

// Owe takes some that were had already.
func (b *Bucket) Owe(many int, cost time.Duration, now time.Time) {
	b.due = now.Add(b.Owes(now) + cost*time.Duration(many))
}

// Owes is for how long something is left to remember.
func (b *Bucket) Owes(now time.Time) time.Duration {
	if b.due.Before(now) {
		return 0
	}
	return b.due.Sub(now)
}
