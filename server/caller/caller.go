// Package caller makes calls of the client API from inside the scheduler's own process, as somebody whom the process
// has proved. Each goes through the same guards as a call that comes by gRPC, so that whoever comes another way has the
// same rights, limits and account. It decides nothing, and knows no role.
package caller

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/server/api"
)

// This file owns how a call gets from its caller to the service and back. What is said is copied on its way, as by a
// wire: nobody holds a message that the other end may still change.
//
// The alternative turned down is a connection of gRPC to oneself: of each change that a page is shown it would cost the
// writing, the framing and the reading, and of each page two goroutines and their buffers.

// Service is the client API with what guards it, the first guard first.
type Service struct {
	API     api.SynapseServer
	Calls   []grpc.UnaryServerInterceptor
	Streams []grpc.StreamServerInterceptor
}

// As is the API for calls of somebody.
func (s *Service) As(who peer.Peer) api.SynapseClient { return api.NewSynapseClient(s.Line(who)) }

// Line is the same for whoever knows calls by their names.
func (s *Service) Line(who peer.Peer) grpc.ClientConnInterface { return &localConn{s, &who} }

// localConn makes calls within the process, as a connection would.
type localConn struct {
	service *Service
	who     *peer.Peer
}

// prefix begins the names of all calls.
const prefix = "/synapse.v1.Synapse/"

// Invoke makes a call that is answered once.
func (l *localConn) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	for _, m := range api.Synapse_ServiceDesc.Methods {
		if prefix+m.MethodName != method {
			continue
		}
		said := &trailer{method: method}
		answer, err := m.Handler(l.service.API, said.in(peer.NewContext(ctx, l.who)), func(in any) error {
			proto.Merge(in.(proto.Message), request.(proto.Message))
			return nil
		}, l.guardCall)
		for _, o := range options {
			if wanted, ok := o.(grpc.TrailerCallOption); ok {
				*wanted.TrailerAddr = said.said()
			}
		}
		if err != nil {
			return asStatus(err)
		}
		proto.Merge(reply.(proto.Message), answer.(proto.Message))
		return nil
	}
	return unknown(method)
}

// guardCall has a call pass every guard before it is served.
func (l *localConn) guardCall(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
) (any, error) {
	for i := len(l.service.Calls) - 1; i >= 0; i-- {
		guard, next := l.service.Calls[i], serve
		serve = func(ctx context.Context, request any) (any, error) { return guard(ctx, request, info, next) }
	}
	return serve(ctx, request)
}

// NewStream begins a call that is answered by a stream. It ends with its context, which whoever asks has to end.
func (l *localConn) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	for _, d := range api.Synapse_ServiceDesc.Streams {
		if prefix+d.StreamName != method {
			continue
		}
		serve := d.Handler
		info := &grpc.StreamServerInfo{FullMethod: method, IsServerStream: d.ServerStreams, IsClientStream: d.ClientStreams}
		for i := len(l.service.Streams) - 1; i >= 0; i-- {
			guard, next := l.service.Streams[i], serve
			serve = func(service any, s grpc.ServerStream) error { return guard(service, s, info, next) }
		}
		s := &stream{ctx: ctx, asked: make(chan any, 1), answers: make(chan any, maxUnread),
			begun: make(chan struct{}), trailer: trailer{method: method}}
		s.begins = sync.OnceFunc(func() { close(s.begun) })
		go func() {
			s.err = asStatus(serve(l.service.API, &served{s, s.in(peer.NewContext(ctx, l.who))}))
			close(s.answers)
			s.begins()
		}()
		return s, nil
	}
	return nil, unknown(method)
}

func unknown(method string) error {
	return status.Error(codes.Unimplemented, "unknown method "+strings.TrimPrefix(method, prefix))
}

// asStatus is an error as it would come over a wire.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.FromContextError(err).Err()
}

// maxUnread bounds the answers of a stream that wait for their reader. Then whoever sends waits too, as with a wire.
const maxUnread = 32

// stream is a call with many answers, as its caller has it.
type stream struct {
	trailer
	ctx     context.Context
	asked   chan any // messages, or what is handed on as it came
	answers chan any
	begun   chan struct{} // closed by begins: with the service's header, its first answer, or its end
	begins  func()
	headed  atomic.Bool // it was not its end
	err     error       // how it ended; to be read once answers is closed
}

func (s *stream) Trailer() metadata.MD     { return s.said() }
func (s *stream) Context() context.Context { return s.ctx }

// Header waits until the service has begun to answer, or, with no header, has ended.
func (s *stream) Header() (metadata.MD, error) {
	select {
	case <-s.begun:
		if s.headed.Load() {
			return metadata.MD{}, nil
		}
		return nil, nil
	case <-s.ctx.Done():
		return nil, asStatus(s.ctx.Err())
	}
}

// CloseSend says that there is nothing more to ask.
func (s *stream) CloseSend() error {
	close(s.asked)
	return nil
}

// SendMsg asks.
func (s *stream) SendMsg(m any) error { return pass(s.ctx, s.asked, m) }

// RecvMsg waits for the next answer.
func (s *stream) RecvMsg(m any) error {
	select {
	case answer, ok := <-s.answers:
		switch {
		case ok:
			return hear(answer, m)
		case s.err != nil:
			return s.err
		}
		return io.EOF
	case <-s.ctx.Done():
		return asStatus(s.ctx.Err())
	}
}

// pass says what nobody changes any more: a copy, or what is handed on, which is no longer whose it was.
func pass(ctx context.Context, to chan<- any, said any) error {
	if m, ok := said.(proto.Message); ok {
		said = proto.Clone(m)
	}
	select {
	case to <- said:
		return nil
	case <-ctx.Done():
		return asStatus(ctx.Err())
	}
}

// hear puts what was said into the form that its hearer wants: a message, or something to be handed on.
func hear(said, as any) error {
	if came, ok := said.(*envelope.Passed); ok {
		return came.Into(as)
	}
	if on, ok := as.(*envelope.Passed); ok {
		return on.From(said)
	}
	proto.Merge(as.(proto.Message), said.(proto.Message))
	return nil
}

// served is the same call, as the service has it.
type served struct {
	*stream
	as context.Context
}

func (s *served) Context() context.Context    { return s.as }
func (s *served) SetHeader(metadata.MD) error { return nil }
func (s *served) SetTrailer(md metadata.MD)   { _ = s.trailer.SetTrailer(md) }

// SendHeader says that answers may come from now on.
func (s *served) SendHeader(metadata.MD) error {
	s.headed.Store(true)
	s.begins()
	return nil
}

// SendMsg answers, and waits while the caller is behind.
func (s *served) SendMsg(m any) error {
	_ = s.SendHeader(nil) // never fails
	return pass(s.ctx, s.answers, m)
}

// RecvMsg receives what was asked.
func (s *served) RecvMsg(m any) error {
	select {
	case question, ok := <-s.asked:
		if !ok {
			return io.EOF
		}
		return hear(question, m)
	case <-s.ctx.Done():
		return asStatus(s.ctx.Err())
	}
}

// trailer has what a service says beside its answer, as when to come again. Headers are not carried.
type trailer struct {
	method string

	mu sync.Mutex
	md metadata.MD
}

// in has a service that knows its call by the context alone find the trailer.
func (t *trailer) in(ctx context.Context) context.Context {
	return grpc.NewContextWithServerTransportStream(ctx, t)
}

func (t *trailer) Method() string               { return t.method }
func (t *trailer) SetHeader(metadata.MD) error  { return nil }
func (t *trailer) SendHeader(metadata.MD) error { return nil }

// SetTrailer adds to it.
func (t *trailer) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.md = metadata.Join(t.md, md)
	return nil
}

func (t *trailer) said() metadata.MD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.md
}
