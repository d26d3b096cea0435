// Package backoff computes the waiting time before the next retry. The time doubles with each failure, up to a limit: a
// short outage costs little, and a long outage causes few retries. The package is pure; its callers have the clock.
package backoff

import "time"

// This file has both forms of the computation: from the last pause, and from the number of failures.

// Next returns the pause after pause: first if pause is 0, otherwise twice the pause, at most limit.
func Next(pause, first, limit time.Duration) time.Duration {
	if pause == 0 {
		return first
	}
	return min(2*pause, limit)
}

// After returns the pause after a number of failures. The first pause may exceed the limit, because the caller chose it
// explicitly.
func After(failures int, first, limit time.Duration) time.Duration {
	pause := first
	for range min(failures-1, 62) { // 62 doublings reach every limit
		pause = min(2*pause, limit)
	}
	return pause
}
