package gateway

import (
	"cmp"
	"context"

	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/server/api"
)

// This file makes calls of the store without actors: for scripts and tokens. A store with a full disk, or an
// unreachable one, can block for minutes. The client still gets an answer in time. If the call takes effect later,
// a retry has the same result.

// mostStored limits these calls in the store at once, because each blocks a goroutine.
const mostStored = 64

// fromStore reads from the store. It returns an error of the store unchanged.
func fromStore[T any](ctx context.Context, g *Gateway, call func() (T, error)) (T, error) {
	return stored(ctx, g, false, call)
}

// toStore writes to the store. It waits for changeTime, like a change through an actor.
func toStore(ctx context.Context, g *Gateway, call func() error) error {
	_, err := stored(ctx, g, true, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func stored[T any](ctx context.Context, g *Gateway, change bool, call func() (T, error)) (T, error) {
	var none T
	ctx, cancel := timed(ctx)
	defer cancel()
	within := ctx
	if change { // there may be no other writer that detects the failure
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, changeTime)
		defer stop()
	}
	late := func(err error) error {
		if ctx.Err() != nil || within.Err() == nil {
			return err
		}
		why, _ := g.trouble.now()
		return api.StatusOf(unwritable(cmp.Or(why, "store does not answer")))
	}
	place, err := g.wait(within, g.storing, false)
	if err != nil {
		return none, late(err)
	}
	type result struct {
		value T
		err   error
	}
	answer := make(reply, 1)
	go func() {
		defer func() { g.storing <- place }()
		value, err := call()
		answer.take(result{value, err})
	}()
	got, err := g.wait(within, answer, false)
	if err != nil {
		return none, late(err)
	}
	r := got.(result)
	return r.value, r.err
}

// storePlaces returns the places for calls of the store. A call without a place waits for one, up to its deadline.
func storePlaces() reply {
	places := make(reply, mostStored)
	for range mostStored {
		places <- struct{}{}
	}
	return places
}

// unstored returns the client's error for an error of the store. An error that is already a status stays unchanged.
func unstored(err error) error {
	if _, told := status.FromError(err); told {
		return err
	}
	return api.StatusOf(unavailable("store does not answer: "+err.Error(), "try again in a few seconds"))
}
