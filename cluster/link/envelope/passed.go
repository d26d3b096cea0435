package envelope

import (
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file owns messages that are forwarded from one stream to another. Such messages are mostly bytes. Decoding and
// encoding them would produce a hundred megabytes of garbage a second, and keep the collector busy for a tenth of the
// time.

// Passed is a received message in encoded form. The zero value can receive a message. After sending, gRPC owns it.
type Passed struct {
	data mem.BufferSlice
}

// Bears reports whether the message consists of exactly one of these byte fields.
func (p *Passed) Bears(fields ...protowire.Number) bool {
	if len(p.data) == 0 {
		return false
	}
	head := p.data[0].ReadOnlyData()
	number, kind, tag := protowire.ConsumeTag(head)
	if tag < 0 || kind != protowire.BytesType || !slices.Contains(fields, number) {
		return false
	}
	length, prefix := protowire.ConsumeVarint(head[tag:])
	return prefix > 0 && length == uint64(p.data.Len()-tag-prefix)
}

// Size returns the size of the message in bytes.
func (p *Passed) Size() int { return p.data.Len() }

// Into decodes the message into a protobuf message, and frees its memory.
func (p *Passed) Into(message any) error {
	defer p.free()
	return encoding.GetCodecV2(proto.Name).Unmarshal(p.data, message)
}

// From encodes a message that did not come from a stream, so that it can be forwarded.
func (p *Passed) From(message any) error {
	p.free()
	data, err := encoding.GetCodecV2(proto.Name).Marshal(message)
	p.data = data
	return err
}

func (p *Passed) receive(data mem.BufferSlice) {
	p.free()
	data.Ref()
	p.data = data
}

func (p *Passed) send() mem.BufferSlice {
	data := p.data
	p.data = nil
	return data
}

func (p *Passed) free() {
	p.data.Free()
	p.data = nil
}
