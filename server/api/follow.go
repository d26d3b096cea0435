package api

import (
	"context"

	"github.com/yi-json/synapse/messages"
)

// This file owns how a process follows its own changes.

// Follow hands on what a watch tells until it breaks or the context ends, and reports whether it had begun. Why it
// ended is not told: whoever watches its own process is told that by readiness.
func Follow(ctx context.Context, c SynapseClient, q *messages.Watch, to func(*messages.Event)) (began bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := c.Watch(ctx, q)
	if err != nil {
		return false
	}
	for {
		e, err := from.Recv()
		if err != nil {
			return began
		}
		began = true
		to(e)
	}
}
