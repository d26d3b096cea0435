package actors

import "github.com/asynkron/protoactor-go/actor"

// This file owns dispatch tables: what an actor does with each message, one line per message, for actors that have too
// many for one switch.

// Handler handles messages of one type, and reports whether this was one.
type Handler[A any] func(a A, ctx actor.Context, message any) bool

// Handlers lists the handlers of an actor, one per message type.
type Handlers[A any] []Handler[A]

// On handles the messages of a type.
func On[M, A any](handle func(A, actor.Context, M)) Handler[A] {
	return func(a A, ctx actor.Context, message any) bool {
		m, is := message.(M)
		if is {
			handle(a, ctx, m)
		}
		return is
	}
}

// OnBare handles the messages of a type that say no more than that it is time.
func OnBare[M, A any](handle func(A, actor.Context)) Handler[A] {
	return On(func(a A, ctx actor.Context, _ M) { handle(a, ctx) })
}

// Receive has the message of a context handled by whoever handles its type.
func (h Handlers[A]) Receive(a A, ctx actor.Context) {
	message := ctx.Message()
	for _, handle := range h {
		if handle(a, ctx, message) {
			return
		}
	}
}
