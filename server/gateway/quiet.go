package gateway

import "sync"

// This file owns which moments are quiet: those in which no call is served. An honest call crosses several goroutines
// and threads on its way to the disk and back, and at each it would wait behind whatever else is ready to run. What
// strangers can have in any number, handshakes and watches of everything, can wait for as long as a call takes.

// underWay counts the calls that are served, streams aside.
type underWay struct {
	mu    sync.Mutex
	many  int
	quiet chan struct{} // closed when the last one is over; nil: nobody waits for that
}

func (u *underWay) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.many++
}

func (u *underWay) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.many--; u.many == 0 && u.quiet != nil {
		close(u.quiet)
		u.quiet = nil
	}
}

// Quiet is closed as soon as no call is served; nil: none is now. Whoever waits for it must not wait for long: there
// may always be a call.
func (g *Gateway) Quiet() <-chan struct{} {
	u := &g.calls
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.many == 0 {
		return nil
	}
	if u.quiet == nil {
		u.quiet = make(chan struct{})
	}
	return u.quiet
}
