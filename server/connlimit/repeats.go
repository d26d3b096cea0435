package connlimit

import (
	"regexp"
	"sync"
	"time"
)

// This file suppresses repeated log lines, because refused clients usually try again.

const (
	// QuietFor is how long a repeated line is suppressed. maxSaid limits the number of remembered lines.
	QuietFor = 10 * time.Second
	maxSaid  = 1024
)

// Repeats remembers the lines of the last moments. The zero value remembers none.
type Repeats struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// moment matches a time in a line. The text about an expired certificate contains the current second.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d`)

// First reports whether to log a line. Lines that differ only in their times are the same.
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
