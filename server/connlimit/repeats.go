package connlimit

import (
	"regexp"
	"sync"
	"time"
)

// This file owns that the same line is not said again at once: whoever is refused dials again.

const (
	// QuietFor is how long the same line is not said again, and maxSaid how many lines are remembered for it.
	QuietFor = 10 * time.Second
	maxSaid  = 1024
)

// Repeats knows which lines were said a moment ago. The zero knows none.
type Repeats struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// moment matches what a line says of the clock: of a certificate that is over, each second another.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d`)

// First reports whether a line is to be said: it is the same line when only its moments are others.
func (r *Repeats) First(line string, now time.Time) bool {
	line = moment.ReplaceAllString(line, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[line]; ok && now.Sub(at) < QuietFor && now.Sub(at) >= 0 {
		return false
	}
	if r.last == nil || len(r.last) >= maxSaid {
		r.last = map[string]time.Time{}
	}
	r.last[line] = now
	return true
}
