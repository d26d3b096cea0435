// Package caller makes calls of the client API inside the scheduler's process, for an authenticated peer. Each call
// passes the same interceptors as a call over gRPC, so rights, limits and audit are the same. The package decides
// nothing and knows no roles.
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

// This file passes messages between a caller and the service. Each message is copied, so that neither end sees
// later changes of the other.
//
// A rejected alternative is a gRPC connection to the process itself. Each change that the web UI shows would be
// encoded, framed and decoded, and each page would need two goroutines and their buffers.

// Service is the client API with its interceptors, outermost first.
type Service struct {
	API     api.SynapseServer
	Calls   []grpc.UnaryServerInterceptor
	Streams []grpc.StreamServerInterceptor
}

// As returns a client of the API for calls by this peer.
func (s *Service) As(who peer.Peer) api.SynapseClient { return api.NewSynapseClient(s.Line(who)) }

// Line returns a connection for calls by this peer, for callers that use method names.
func (s *Service) Line(who peer.Peer) grpc.ClientConnInterface { return &localConn{s, &who} }

// localConn makes calls within the process, like a connection.
type localConn struct {
	service *Service
	who     *peer.Peer
}

// prefix is the start of all method names.
const prefix = "/synapse.v1.Synapse/"

// Invoke makes a call with a single answer.
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

// guardCall passes a call through every interceptor to the service.
func (l *localConn) guardCall(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
) (any, error) {
	for i := len(l.service.Calls) - 1; i >= 0; i-- {
		guard, next := l.service.Calls[i], serve
		serve = func(ctx context.Context, request any) (any, error) { return guard(ctx, request, info, next) }
	}
	return serve(ctx, request)
}

// NewStream starts a call with a stream of answers. It ends with its context, which the caller must cancel.
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

// asStatus returns an error as gRPC would return it.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.FromContextError(err).Err()
}

// maxUnread limits the unread answers of a stream. At the limit the sender waits, as over a network.
const maxUnread = 32

// stream is the caller's end of a call with several answers.
type stream struct {
	trailer
	ctx     context.Context
	asked   chan any // messages, or encoded messages that are passed on
	answers chan any
	begun   chan struct{} // closed by begins: on the header, the first answer, or the end
	begins  func()
	headed  atomic.Bool // begins was called before the end
	err     error       // the result; read it after answers is closed
}

func (s *stream) Trailer() metadata.MD     { return s.said() }
func (s *stream) Context() context.Context { return s.ctx }

// Header waits for the header or the first answer. It returns nil if the call ends first.
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

// CloseSend ends the requests.
func (s *stream) CloseSend() error {
	close(s.asked)
	return nil
}

// SendMsg sends a request.
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

// pass sends a message to the other end. It copies a message, unless the sender gives an encoded one away.
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

// hear converts a message into the form of the receiver: decoded, or still encoded to be passed on.
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

// served is the service's end of the same call.
type served struct {
	*stream
	as context.Context
}

func (s *served) Context() context.Context    { return s.as }
func (s *served) SetHeader(metadata.MD) error { return nil }
func (s *served) SetTrailer(md metadata.MD)   { _ = s.trailer.SetTrailer(md) }

// SendHeader marks the start of the answers.
func (s *served) SendHeader(metadata.MD) error {
	s.headed.Store(true)
	s.begins()
	return nil
}

// SendMsg sends an answer, and waits while the caller has too many unread answers.
func (s *served) SendMsg(m any) error {
	_ = s.SendHeader(nil) // never fails
	return pass(s.ctx, s.answers, m)
}

// RecvMsg receives a request.
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

// trailer holds the trailer of an answer, such as a retry time. Headers are dropped.
type trailer struct {
	method string

	mu sync.Mutex
	md metadata.MD
}

// in returns a context in which the service finds the trailer.
func (t *trailer) in(ctx context.Context) context.Context {
	return grpc.NewContextWithServerTransportStream(ctx, t)
}

func (t *trailer) Method() string               { return t.method }
func (t *trailer) SetHeader(metadata.MD) error  { return nil }
func (t *trailer) SendHeader(metadata.MD) error { return nil }

// SetTrailer adds values to the trailer.
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
