package gateway

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
)

// This file recovers panics in calls: a panic ends only its own call. The client gets a general error, and the log
// gets the stack.

// GuardCall turns a panic in a unary call into an error.
func (g *Gateway) GuardCall(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (reply any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			reply, err = nil, g.panicked(info.FullMethod, reason)
		}
	}()
	return handle(ctx, request)
}

// GuardStream turns a panic in a stream into an error.
func (g *Gateway) GuardStream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	return g.guarded(info.FullMethod, func() error { return handle(server, stream) })
}

// guarded runs a part of a call and recovers a panic. Each goroutine of a call needs its own guarded, because a
// panic can only be recovered in its goroutine.
func (g *Gateway) guarded(method string, do func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = g.panicked(method, reason)
		}
	}()
	return do()
}

func (g *Gateway) panicked(method string, reason any) error {
	g.o.Count("gateway.panics", 1)
	g.o.Log.Info("%s panicked: %v\n%s", method, reason, debug.Stack())
	return errInternal
}
