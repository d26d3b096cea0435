package api

import (
	"context"

	"github.com/yi-json/synapse/messages"
)

// This file lets a process watch its own changes.

// Follow calls the function to with each event of a watch, until the watch fails or the context ends. It reports
// whether the watch had started. It does not return the reason: a process that watches itself learns the reason
// through its readiness.
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
