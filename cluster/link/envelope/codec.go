package envelope

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // it registers the codec of everything but frames
	"google.golang.org/grpc/mem"
)

// This file owns how frames pass gRPC: one method, and a codec that takes bytes and gives bytes.

// Handler serves the stream of one peer, from its beginning to its end.
type Handler interface {
	Receive(stream grpc.ServerStream) error
}

// method is the one that carries frames. The service's other methods list and inspect actors; they are not registered,
// so gRPC answers Unimplemented.
var method = grpc.StreamDesc{
	StreamName:    receive,
	Handler:       func(h any, stream grpc.ServerStream) error { return h.(Handler).Receive(stream) },
	ServerStreams: true,
	ClientStreams: true,
}

// Register mounts the service at a server that was made with ServerOption.
func Register(at grpc.ServiceRegistrar, h Handler) {
	at.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*Handler)(nil), Streams: []grpc.StreamDesc{method},
	}, h)
}

// ServerOption lets a server's streams carry frames; its other services are as they were. gRPC has one codec for all
// services of a server, and a content-subtype of our own would be one that Proto.Actor's peers do not know.
func ServerOption() grpc.ServerOption { return grpc.ForceServerCodecV2(codec{}) }

// Open begins a stream to a peer.
func Open(ctx context.Context, peer grpc.ClientConnInterface) (grpc.ClientStream, error) {
	return peer.NewStream(ctx, &method, "/"+service+"/"+receive, grpc.ForceCodecV2(codec{}))
}

// Stream is either end of an open stream.
type Stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// Frame is one frame as bytes. The zero is empty, and ready to be received into.
type Frame struct {
	buffer mem.Buffer
}

// Bytes are the bytes of the frame; they are valid until it is freed or sent.
func (f *Frame) Bytes() []byte {
	if f.buffer == nil {
		return nil
	}
	return f.buffer.ReadOnlyData()
}

// Free gives a received frame's memory back. Any part of it that was kept may then change.
func (f *Frame) Free() {
	if f.buffer != nil {
		f.buffer.Free()
		f.buffer = nil
	}
}

// Send gives a frame to gRPC, which owns it from then on.
func Send(to Stream, f *Frame) error { return to.SendMsg(f) }

// Receive waits for the next frame. The caller must free it.
func Receive(from Stream, f *Frame) error { return from.RecvMsg(f) }

// codec passes frames and what is handed on as they are, and leaves everything else to protobuf's codec: one server
// serves all.
type codec struct{}

// Name is that of protobuf's codec: the bytes are protobuf, and a peer is sure to have only that one.
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

// Unmarshal leaves a frame that came in one piece, as nearly all do, where gRPC put it, and joins one that came in
// several. gRPC's pool would take 1 MiB for anything above 32 KiB, and clear all of it first.
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
