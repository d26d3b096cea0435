package connlimit

import "time"

// This file implements the token bucket for all rates: of sources in this package, and of identities in authn.

// Rate is a number per second with a burst. Unused capacity accumulates up to the burst. The zero value means no
// limit.
type Rate struct{ PerSecond, Burst int }

// Cost returns the time per unit.
func (r Rate) Cost() time.Duration {
	if r.PerSecond == 0 {
		return 0
	}
	return time.Second / time.Duration(r.PerSecond)
}

// Bucket counts the used part of a rate. The zero value is a full bucket.
type Bucket struct {
	due time.Time // when the bucket would be full again
}

// Wait returns the time until one unit is available. cost is the time per unit.
func (b *Bucket) Wait(cost time.Duration, burst int, now time.Time) time.Duration {
	return max(0, b.Owes(now)-cost*time.Duration(burst-1))
}

// Take takes units, or returns the time until one is available. If one is available, it may take more and go into
// debt.
func (b *Bucket) Take(many int, cost time.Duration, burst int, now time.Time) (wait time.Duration) {
	if wait = b.Wait(cost, burst, now); wait == 0 {
		b.Owe(many, cost, now)
	}
	return wait
}

// Owe charges units that were already used.
func (b *Bucket) Owe(many int, cost time.Duration, now time.Time) {
	b.due = now.Add(b.Owes(now) + cost*time.Duration(many))
}

// Owes returns the time until the bucket is full again.
func (b *Bucket) Owes(now time.Time) time.Duration {
	if b.due.Before(now) {
		return 0
	}
	return b.due.Sub(now)
}
