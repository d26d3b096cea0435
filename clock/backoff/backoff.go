// Package backoff is how long to wait before something is tried again: twice as long each time, up to a limit, so that
// what is over soon costs little and what lasts is not hammered. It is pure: whoever waits brings the clock.
package backoff

import "time"

// This file owns how a pause grows.

// Next is the pause after one of this length: the first, where there was none, and else twice as long up to the limit.
func Next(pause, first, limit time.Duration) time.Duration {
	if pause == 0 {
		return first
	}
	return min(2*pause, limit)
}

// After is the pause after this number of failures; the first may be above the limit, as nothing was tried yet when it
// was chosen.
func After(failures int, first, limit time.Duration) time.Duration {
	pause := first
	for range min(failures-1, 62) { // then every limit is reached
		pause = min(2*pause, limit)
	}
	return pause
}
