package envelope

import (
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file owns messages that are handed on from one stream to another. To decode and encode again what is mostly
// bytes would have all of them collected: a hundred megabytes a second, and the collector at work for a tenth of the
// time.

// Passed is a message as it came. The zero is ready to be received into. Sent, it is gRPC's.
type Passed struct {
	data mem.BufferSlice
}

// Bears reports whether it is one of these fields of bytes, and nothing else.
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

// Size is how many bytes it has.
func (p *Passed) Size() int { return p.data.Len() }

// Into decodes it into a message of protobuf's, and gives its memory back.
func (p *Passed) Into(message any) error {
	defer p.free()
	return encoding.GetCodecV2(proto.Name).Unmarshal(p.data, message)
}

// From is for whoever has a message that did not come by a wire, to be handed on to where there is one.
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
