package envelope

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // registers the codec for everything but frames
	"google.golang.org/grpc/mem"
)

// This file owns how frames pass through gRPC: one method, and a codec for bytes.

// Handler serves the stream of one peer, from beginning to end.
type Handler interface {
	Receive(stream grpc.ServerStream) error
}

// method is the only method that carries frames. The service's other methods list and inspect actors. They are not
// registered, so gRPC answers Unimplemented.
var method = grpc.StreamDesc{
	StreamName:    receive,
	Handler:       func(h any, stream grpc.ServerStream) error { return h.(Handler).Receive(stream) },
	ServerStreams: true,
	ClientStreams: true,
}

// Register adds the service to a server that was created with ServerOption.
func Register(at grpc.ServiceRegistrar, h Handler) {
	at.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*Handler)(nil), Streams: []grpc.StreamDesc{method},
	}, h)
}

// ServerOption allows a server's streams to carry frames. Its other services do not change. gRPC has one codec for all
// services of a server, and peers of Proto.Actor would not know a separate content-subtype.
func ServerOption() grpc.ServerOption { return grpc.ForceServerCodecV2(codec{}) }

// Open opens a stream to a peer.
func Open(ctx context.Context, peer grpc.ClientConnInterface) (grpc.ClientStream, error) {
	return peer.NewStream(ctx, &method, "/"+service+"/"+receive, grpc.ForceCodecV2(codec{}))
}

// Stream is either end of an open stream.
type Stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// Frame is one frame as bytes. The zero value is empty and can receive a frame.
type Frame struct {
	buffer mem.Buffer
}

// Bytes returns the bytes of the frame. They are valid until the frame is freed or sent.
func (f *Frame) Bytes() []byte {
	if f.buffer == nil {
		return nil
	}
	return f.buffer.ReadOnlyData()
}

// Free returns a received frame's memory. Parts of it that were kept may then change.
func (f *Frame) Free() {
	if f.buffer != nil {
		f.buffer.Free()
		f.buffer = nil
	}
}

// Send sends a frame. gRPC owns the frame from then on.
func Send(to Stream, f *Frame) error { return to.SendMsg(f) }

// Receive waits for the next frame. The caller must free it.
func Receive(from Stream, f *Frame) error { return from.RecvMsg(f) }

// codec passes frames and forwarded messages unchanged, and uses protobuf's codec for everything else, so that one
// server serves all.
type codec struct{}

// Name returns the name of protobuf's codec. The bytes are protobuf, and every peer has that codec.
func (codec) Name() string { return proto.Name }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *Frame:
		if m.buffer == nil {
			return nil, nil
		}
		return mem.BufferSlice{m.buffer}, nil
	case *Passed:
		return m.send(), nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal keeps a frame in gRPC's buffer if it arrived in one piece, as nearly all do. It joins a frame of several
// pieces itself, because gRPC's pool would allocate and clear 1 MiB for any frame above 32 KiB.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *Frame:
		m.Free()
		m.buffer = data.MaterializeToBuffer(mem.NopBufferPool{})
		return nil
	case *Passed:
		m.receive(data)
		return nil
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}
