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

// This file owns how requests are read. gRPC reads the request of a plain call whole before it asks anybody about the
// call: up to 4 MiB of each of all calls that are open. Of a stream it reads nothing by itself. So the gate has every
// call served as a stream: its caller is judged before the request is read, and an identity has a few requests on their
// way at the same time. The next wait, of which gRPC holds no more than a stream's window. A large one is several times
// its size while it is decoded and served, so of those that have come whole one is served at a time.

const (
	// unreadBytes is what of a request may be here that is not read: a stream's window, which must not grow.
	unreadBytes = 256 << 10
	// littleBytes is how large a request may be that costs nothing by its size. A piece of 64 KiB of what a process reads
	// is little, with what stands around it: that is what cp and port-forward send.
	littleBytes = 64<<10 + 256
	// largeAtOnce bounds the large requests of all that are decoded and served at the same time.
	largeAtOnce = 1
	// readPatience is how long a request waits for those of its identity that are on their way.
	readPatience = 10 * time.Second
)

// services has each call of a service served as a stream.
type services struct {
	*grpc.Server
	gate *Authenticator
}

// Services is a server behind the gate, for whoever registers services there before it serves.
func (g *Authenticator) Services(at *grpc.Server) reflection.GRPCServer { return services{at, g} }

// RegisterService registers a service whose every call is a stream. Its clients cannot tell.
func (s services) RegisterService(of *grpc.ServiceDesc, service any) {
	streamed := *of
	streamed.Methods, streamed.Streams = nil, slices.Clone(of.Streams)
	for _, m := range of.Methods {
		s.gate.once["/"+of.ServiceName+"/"+m.MethodName] = true
		streamed.Streams = append(streamed.Streams, grpc.StreamDesc{
			StreamName: m.MethodName, ServerStreams: true, // else gRPC asks no guard of streams
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

// guarded is a stream of which every request is held against the table, and every answer shown as far as it may be.
type guarded struct {
	grpc.ServerStream
	asked *checkedCall
	begun bool
	once  bool // it is answered once
}

// RecvMsg reads a request, and has the gate judge it.
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
	if !s.once { // what it asked for is served for long, and is small
		s.asked.lightens()
	}
	return err
}

// read reads a request into a message, when it is its turn. A large one waits until no other is served.
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

// SendMsg sends what the caller may see of an answer. A call that is answered once is over by then, as far as the audit
// and others' large requests are concerned: whoever asked may never read it.
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

// reads waits until the call's request may be read; read says once that it was.
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
		err = c.overdrawn("has begun calls and is slow to send, or has not sent, the requests for them", time.Second)
	}
	over()
	return nil, err
}

// lightens says that a large request is no longer decoded or served.
func (c *checkedCall) lightens() {
	if c.large {
		c.large = false
		<-c.gate.large
	}
}

// Comes waits until the body of a request may be read; came says that it was.
func (c *Caller) Comes(call string) (came func(), err error) {
	ctx := peer.NewContext(c.Until, &c.Peer)
	return (&checkedCall{gate: c.gate, ctx: ctx, peer: c.peer, call: call}).reads()
}
