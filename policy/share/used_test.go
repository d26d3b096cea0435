package share

// This file tests the recent usage.

import (
	"testing"
)

// TestUsed checks that usage counts half after one half-life, however often it is read, and that forgiven usage does
// not count.
func TestUsed(t *testing.T) {
	u := used{at: 5}
	u.change(8000, 5)
	for range 1000 {
		u.change(0, u.at+halfLife/1000)
	}
	whole := int64(8000) * lifeMs
	if got := u.now(5 + halfLife); got < whole/2-2000 || got > whole/2+2000 {
		t.Errorf("after a half-life of 8 GPUs %d were used, and not half of %d", got, whole)
	}
	u.change(-8000, 5+halfLife)
	was := u.now(5 + halfLife)
	if got := u.now(5 + 3*halfLife); got < was/4-1 || got > was/4+1 {
		t.Errorf("two half-lives later %d are left of %d", got, was)
	}
	if got := u.now(5 + 100*halfLife); got != 0 {
		t.Errorf("a hundred half-lives later %d are left", got)
	}
	short := used{}
	short.change(1000, 0)
	if got := short.now(10 * second); got < 9_999_000 || got > 10_001_000 {
		t.Errorf("in ten seconds one GPU used %d milli-GPU-milliseconds", got)
	}
	short.change(-1000, 10*second)
	if short.forgive(1000, 0, 10*second); short.now(10*second) > 1 {
		t.Errorf("what was forgiven is still %d", short.now(10*second))
	}
}

// TestHeldCountsAhead checks that held amounts count as used for one more hour. Otherwise one queue would get all
// capacity that becomes free in one pass.
func TestHeldCountsAhead(t *testing.T) {
	const now = 50 * 3600 * second
	for _, c := range []struct{ sum, rate, want int64 }{{0, 0, 0}, {7, 0, 7}, {7, 2, 7 + 2*3_600_000}} {
		if got := (&used{sum: c.sum, rate: c.rate, at: now}).counts(now); got != c.want {
			t.Errorf("%+v: it counts as %d", c, got)
		}
	}
	u := used{sum: 1 << 40, at: now}
	if got := u.counts(now + halfLife); got != 1<<39 {
		t.Errorf("a half-life later %d count of %d", got, u.sum)
	}
}
