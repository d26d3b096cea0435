package gateway

import (
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file answers changes while the store cannot be written. A leader retries its writes until they succeed,
// which can take as long as a disk is full. Clients get an error instead and may retry. A retry finds a change that
// was written late, by its request ID or because the change already holds.

// changeTime is the minimum time that a change waits, even if the store cannot be written, because most failures
// end at once. A client waits at most the time of its --retry plus this time.
const changeTime = 800 * time.Millisecond

// trouble holds the reason why the store cannot be written now.
type trouble struct {
	mu    sync.Mutex
	why   string
	begun chan struct{} // closed when writing fails; nil: no call waits for this
}

// Unwritable sets the reason why the store cannot be written, or "" when it can be written again.
func (g *Gateway) Unwritable(why string) {
	g.trouble.mu.Lock()
	defer g.trouble.mu.Unlock()
	if g.trouble.why = why; why != "" && g.trouble.begun != nil {
		close(g.trouble.begun)
		g.trouble.begun = nil
	}
}

// now returns the reason why the store cannot be written. If it can be written, now returns a channel that is
// closed on the next failure.
func (t *trouble) now() (why string, begun <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == nil && t.why == "" {
		t.begun = make(chan struct{})
	}
	return t.why, t.begun
}

func unwritable(why string) *messages.Outcome {
	return unavailable("scheduler cannot write to its store: "+why,
		"free space on the scheduler's disk, or repair its database, then try again; the change may still take effect")
}
