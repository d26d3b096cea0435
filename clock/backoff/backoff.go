// Package backoff decides how long to wait before something is tried again: twice as long each time, up to a limit, so
// that a short failure costs little and a long one is not hammered. It is pure: its callers have the clock.
package backoff

import "time"

// This file owns how a pause grows.

// Next is the pause after one of this length: first where there was none, else twice as long, up to the limit.
func Next(pause, first, limit time.Duration) time.Duration {
	if pause == 0 {
		return first
	}
	return min(2*pause, limit)
}

// After is the pause after this number of failures. The first pause may be above the limit, because it was chosen
// before anything was tried.
func After(failures int, first, limit time.Duration) time.Duration {
	pause := first
	for range min(failures-1, 62) { // then every limit is reached
		pause = min(2*pause, limit)
	}
	return pause
}
