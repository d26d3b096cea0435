package authn

import (
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/server/rights"
)

// This file controls how requests are received. For a unary call, gRPC reads the complete request, up to 4 MiB,
// before it asks any interceptor. For a stream, it reads nothing by itself. The Authenticator therefore serves
// every call as a stream. It checks the caller before it reads the request, and each identity may send only a few
// requests at once. Further requests wait, and gRPC buffers at most one stream window of each.
//
// A large request needs several times its size while it is decoded and served. Large requests are therefore served
// one at a time.

const (
	// unreadBytes is the buffer of an unread request: the fixed window of a stream.
	unreadBytes = 256 << 10
	// littleBytes is the size up to which a request costs nothing extra. cp and port-forward send pieces of 64
	// KiB, which fit with their framing.
	littleBytes = 64<<10 + 256
	// largeAtOnce limits how many large requests, of all identities, are decoded and served at the same time.
	largeAtOnce = 1
	// readPatience is how long a request waits for earlier requests of the same identity.
	readPatience = 10 * time.Second
)

// services registers each call of a service as a stream.
type services struct {
	*grpc.Server
	gate *Authenticator
}

// Services returns a server behind the Authenticator. Register services on it before it serves.
func (g *Authenticator) Services(at *grpc.Server) reflection.GRPCServer { return services{at, g} }

// RegisterService registers a service with every call as a stream. Clients do not notice the difference.
func (s services) RegisterService(of *grpc.ServiceDesc, service any) {
	streamed := *of
	streamed.Methods, streamed.Streams = nil, slices.Clone(of.Streams)
	for _, m := range of.Methods {
		s.gate.once["/"+of.ServiceName+"/"+m.MethodName] = true
		streamed.Streams = append(streamed.Streams, grpc.StreamDesc{
			StreamName: m.MethodName, ServerStreams: true, // otherwise gRPC calls no stream interceptor
			Handler: func(service any, stream grpc.ServerStream) error {
				reply, err := m.Handler(service, stream.Context(), stream.RecvMsg, nil)
				if err != nil {
					return err
				}
				return stream.SendMsg(reply)
			},
		})
	}
	s.Server.RegisterService(&streamed, service)
}

// guarded is a stream that checks every request and filters every answer.
type guarded struct {
	grpc.ServerStream
	asked *checkedCall
	begun bool
	once  bool // the call has a single answer
}

// RecvMsg reads a request and checks it.
func (s *guarded) RecvMsg(m any) error {
	if s.begun && rights.Continues(s.asked.call) {
		return s.ServerStream.RecvMsg(m)
	}
	bytes, err := s.read(m)
	if err != nil {
		return err
	}
	s.begun = true
	err = s.asked.allow(m)
	if bytes > littleBytes {
		s.asked.gate.purses.owes(s.asked.peer.Identity.String(), bytes>>10, s.asked.gate.o.Now())
	}
	if !s.once { // streams run long, and their requests are small
		s.asked.lightens()
	}
	return err
}

// read reads a request when its turn comes. A large request waits until no other one is served.
func (s *guarded) read(m any) (bytes int, err error) {
	read, err := s.asked.reads()
	if err != nil {
		return 0, err
	}
	defer read()
	var came envelope.Passed
	if err := s.ServerStream.RecvMsg(&came); err != nil {
		return 0, err
	}
	if bytes = came.Size(); bytes > littleBytes {
		select {
		case s.asked.gate.large <- struct{}{}:
			s.asked.large = true
		case <-s.Context().Done():
			return 0, status.FromContextError(s.Context().Err()).Err()
		}
	}
	if err := came.Into(m); err != nil {
		return 0, status.Errorf(codes.Internal, "request cannot be decoded: %v", err)
	}
	return bytes, nil
}

// SendMsg sends the part of an answer that the caller may see. For a call with a single answer, it first writes the
// audit line and releases the place of a large request, because the caller may never read the answer.
func (s *guarded) SendMsg(m any) error {
	if s.once {
		s.asked.lightens()
		s.asked.ended(m, nil)
	}
	shown, err := s.asked.show(m)
	if err != nil {
		return err
	}
	return s.ServerStream.SendMsg(shown)
}

// reads waits until the call's request may be read. The caller calls read after the request was read.
func (c *checkedCall) reads() (read func(), err error) {
	places, over := c.gate.purses.waits(c.peer.Identity.String(), c.gate.o.Now())
	patience := time.NewTimer(c.gate.patience)
	defer patience.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places; over() }, nil
	case <-c.ctx.Done():
		err = status.FromContextError(c.ctx.Err()).Err()
	case <-patience.C:
		err = c.overdrawn("has started calls without sending their requests in time", time.Second)
	}
	over()
	return nil, err
}

// lightens releases the place of a large request.
func (c *checkedCall) lightens() {
	if c.large {
		c.large = false
		<-c.gate.large
	}
}

// Comes waits until the body of a request may be read. The caller calls came after it was read.
func (c *Caller) Comes(call string) (came func(), err error) {
	ctx := peer.NewContext(c.Until, &c.Peer)
	return (&checkedCall{gate: c.gate, ctx: ctx, peer: c.peer, call: call}).reads()
}
