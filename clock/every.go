package clock

// This file owns work that is repeated at intervals.

import "time"

// Every calls do at each interval until done is closed. An interval that passes during a call is skipped.
func Every(interval time.Duration, done <-chan struct{}, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			do()
		}
	}
}
