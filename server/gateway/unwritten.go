package gateway

import (
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns the answer to a change that the store cannot write. A leader tries to write until it succeeds, which
// can take as long as a disk is full. Clients get an error instead and may try again: a change that was written late is
// found then, by the id of its request or because it already holds.

// changeTime is the time that a change waits at least, also if the store cannot be written: most stores can again at
// once. A client is done within the time of its --retry and this time.
const changeTime = 800 * time.Millisecond

// trouble is why the store cannot be written now.
type trouble struct {
	mu    sync.Mutex
	why   string
	begun chan struct{} // closed when the store can no longer be written; nil: nobody waits for that
}

// Unwritable is told why the store cannot be written now, and "" once it can be written again.
func (g *Gateway) Unwritable(why string) {
	g.trouble.mu.Lock()
	defer g.trouble.mu.Unlock()
	if g.trouble.why = why; why != "" && g.trouble.begun != nil {
		close(g.trouble.begun)
		g.trouble.begun = nil
	}
}

// now answers why the store cannot be written, and if it can, what is closed as soon as it no longer can.
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
