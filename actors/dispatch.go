package actors

import "github.com/asynkron/protoactor-go/actor"

// This file owns dispatch tables, with one line per message type, for actors that have too many messages for one
// switch.

// Handler handles messages of one type, and reports whether this was one.
type Handler[A any] func(a A, ctx actor.Context, message any) bool

// Handlers lists the handlers of an actor, one per message type.
type Handlers[A any] []Handler[A]

// On returns a handler for the messages of a type.
func On[M, A any](handle func(A, actor.Context, M)) Handler[A] {
	return func(a A, ctx actor.Context, message any) bool {
		m, is := message.(M)
		if is {
			handle(a, ctx, m)
		}
		return is
	}
}

// OnBare returns a handler for a message type without content, such as a timer.
func OnBare[M, A any](handle func(A, actor.Context)) Handler[A] {
	return On(func(a A, ctx actor.Context, _ M) { handle(a, ctx) })
}

// Receive passes the message of a context to the handler of its type.
func (h Handlers[A]) Receive(a A, ctx actor.Context) {
	message := ctx.Message()
	for _, handle := range h {
		if handle(a, ctx, message) {
			return
		}
	}
}
