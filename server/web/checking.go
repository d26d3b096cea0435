package web

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// This file limits how often the server reads the job file of one user, who may type fast or may not be a browser.

const (
	// checkPause is the least time between two readings of job files of one user.
	checkPause = 100 * time.Millisecond
	// maxChecks limits the readings of one user that wait. A page has at most one at a time.
	maxChecks = 8
)

// checking holds the users whose job files are read.
type checking struct {
	pause time.Duration

	mu sync.Mutex
	of map[string]*place
}

// place is the right of one user to have one file read at a time.
type place struct {
	free chan struct{} // has one element while no file is read
	uses int           // readings that run or wait
}

// begin waits for the turn of a user. Call done after the file was read.
func (c *checking) begin(ctx context.Context, whom string) (done func(), err error) {
	c.mu.Lock()
	at := c.of[whom]
	if at == nil {
		at = &place{free: make(chan struct{}, 1)}
		at.free <- struct{}{}
		c.of[whom] = at
	}
	if at.uses >= maxChecks {
		c.mu.Unlock()
		return nil, &mistake{"too many job files of " + whom + " at once: try again in a moment",
			http.StatusTooManyRequests}
	}
	at.uses++
	c.mu.Unlock()
	select {
	case <-at.free:
		return func() { time.AfterFunc(c.pause, func() { at.free <- struct{}{}; c.leave(whom, at) }) }, nil
	case <-ctx.Done():
		c.leave(whom, at)
		return nil, ctx.Err()
	}
}

// leave forgets a user without readings.
func (c *checking) leave(whom string, at *place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.uses--; at.uses == 0 {
		delete(c.of, whom)
	}
}
