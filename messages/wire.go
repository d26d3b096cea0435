package messages

import (
	"slices"

	"google.golang.org/protobuf/proto"
)

// This file owns how a message becomes bytes, for disks and for the link. The
// code that does it is generated, because to walk a message by reflection takes
// three times as long; the bytes are the same, and the same for equal messages.
// Reading is the library's: it refuses text that is not UTF-8, so that none gets
// in. What a process says of itself it has to make sure of.

// Message is any message of this folder.
type Message interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Many makes empty messages in one go, for what a gang has one of for each member:
// one by one they would be much of what it costs.
func Many[M any](n int) []*M {
	all, list := make([]M, n), make([]*M, n)
	for i := range all {
		list[i] = &all[i]
	}
	return list
}

// Size is how many bytes a message takes.
func Size(m Message) int { return m.SizeVT() }

// Bytes writes a message.
func Bytes(m Message) []byte {
	data := make([]byte, m.SizeVT())
	fill(data, m)
	return data
}

// Append writes a message behind what is there.
func Append(data []byte, m Message) []byte {
	n := m.SizeVT()
	data = slices.Grow(data, n)[:len(data)+n]
	fill(data[len(data)-n:], m)
	return data
}

// fill cannot fail: a message that was sized and does not fit was changed
// meanwhile, which is a broken invariant.
func fill(data []byte, m Message) {
	if n, err := m.MarshalToSizedBufferVT(data); err != nil || n != len(data) {
		panic("a message changed while it was written")
	}
}
