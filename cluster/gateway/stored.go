package gateway

import (
	"context"

	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/api"
)

// This file owns calls of the store that no actor makes: those about scripts and tokens. A store whose disk is full or
// away can hang for minutes. The client gets its answer all the same, and what the store does later has no effect that
// a second try would not have.

// mostStored bounds how many of these calls wait for the store at once.
const mostStored = 64

// fromStore asks the store for something. An error of the store comes back as it is.
func fromStore[T any](ctx context.Context, g *Gateway, call func() (T, error)) (T, error) {
	return stored(ctx, g, false, call)
}

// toStore has the store keep or drop something. It waits for it as for any change.
func toStore(ctx context.Context, g *Gateway, call func() error) error {
	_, err := stored(ctx, g, true, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func stored[T any](ctx context.Context, g *Gateway, change bool, call func() (T, error)) (T, error) {
	var none T
	select {
	case g.storing <- struct{}{}:
	default:
		return none, api.StatusOf(unavailable("the store does not answer, and many wait for it", "try again in a moment"))
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	answer := make(reply, 1)
	go func() {
		defer func() { <-g.storing }()
		value, err := call()
		answer.take(result{value, err})
	}()
	got, err := g.wait(ctx, answer, change)
	if err != nil {
		return none, err
	}
	r := got.(result)
	return r.value, r.err
}

// unstored is what a client learns of an error of the store. One that is meant for it already stays as it is.
func unstored(err error) error {
	if _, told := status.FromError(err); told {
		return err
	}
	return api.StatusOf(unavailable("the store does not answer: "+err.Error(), "try again in a moment"))
}
