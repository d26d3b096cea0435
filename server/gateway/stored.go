package gateway

import (
	"cmp"
	"context"

	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/server/api"
)

// This file owns calls of the store that no actor makes: those about scripts and tokens. A store whose disk is full or
// away can hang for minutes. The client gets its answer all the same, and what the store does later has no effect that
// a second try would not have.

// mostStored bounds how many of these calls are in the store at once: each has a goroutine that a store may hold.
const mostStored = 64

// fromStore asks the store for something. An error of the store comes back as it is.
func fromStore[T any](ctx context.Context, g *Gateway, call func() (T, error)) (T, error) {
	return stored(ctx, g, false, call)
}

// toStore has the store keep or drop something. It waits for changeTime, as a change of an actor does.
func toStore(ctx context.Context, g *Gateway, call func() error) error {
	_, err := stored(ctx, g, true, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func stored[T any](ctx context.Context, g *Gateway, change bool, call func() (T, error)) (T, error) {
	var none T
	ctx, cancel := timed(ctx)
	defer cancel()
	within := ctx
	if change { // nobody else may be writing, and tell of the store's trouble
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

// storePlaces are places for calls of the store. Who gets none waits until one is free, as long as for an answer.
func storePlaces() reply {
	places := make(reply, mostStored)
	for range mostStored {
		places <- struct{}{}
	}
	return places
}

// unstored returns what a client learns of an error of the store. One that is meant for it already stays as it is.
func unstored(err error) error {
	if _, told := status.FromError(err); told {
		return err
	}
	return api.StatusOf(unavailable("store does not answer: "+err.Error(), "try again in a few seconds"))
}
