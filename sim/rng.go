package sim

import (
	"math/bits"
	"time"
)

// This file provides randomness. All random choices of a run come from sources that are forked by name from one seed.
// So an additional draw for the faults does not change which jobs arrive.

// generator draws by splitmix64, which is small, fast, and the same on every host.
type generator struct {
	state uint64
	// even replaces every drawn duration in a world without durations. nil means that durations are drawn.
	even *time.Duration
}

func newSource(seed uint64) *generator { return &generator{state: seed * 0x9e3779b97f4a7c15} }

// fork returns an independent source for one purpose.
func (s *generator) fork(purpose string) *generator {
	h := s.state ^ 0x6a09e667f3bcc909
	for i := 0; i < len(purpose); i++ {
		h = (h ^ uint64(purpose[i])) * 0x100000001b3
	}
	forked := &generator{state: h, even: s.even}
	forked.next()
	return forked
}

func (s *generator) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// below draws from 0 to n-1. n must be positive.
func (s *generator) below(n int) int {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int(hi)
}

// chance returns true with this probability.
func (s *generator) chance(p float64) bool {
	return s.next()>>11 < uint64(p*(1<<53))
}

// between draws a duration from lo to hi, both included.
func (s *generator) between(lo, hi time.Duration) time.Duration {
	switch {
	case s.even != nil:
		return *s.even
	case hi <= lo:
		return lo
	}
	return lo + time.Duration(s.below(int(hi-lo)+1))
}

// span draws an integer from lo to hi, both included.
func (s *generator) span(lo, hi int) int {
	if hi <= lo {
		return lo
	}
	return lo + s.below(hi-lo+1)
}

// skewed draws from lo to hi. Short durations are frequent and long ones possible. It squares an even draw in integers,
// so that every host computes the same.
func (s *generator) skewed(lo, hi time.Duration) time.Duration {
	if s.even != nil {
		return *s.even
	}
	const scale = 1 << 16
	d := int64(s.below(scale))
	part := d * d / scale // 0 … scale-1
	return lo + time.Duration(int64(hi-lo)/scale*part)
}
