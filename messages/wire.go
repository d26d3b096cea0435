package messages

import (
	"slices"

	"google.golang.org/protobuf/proto"
)

// This file encodes messages for disks and links. The code is generated, because encoding by reflection takes three
// times as long. Equal messages have equal bytes, which are the same as those of the protobuf library. Decoding uses
// the library, which refuses text that is not UTF-8. The generated code does not check texts, so a process must check
// its own texts.

// Message is any message of this package.
type Message interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Many returns n empty messages in one allocation, for the members of a gang. Single allocations would be a large part
// of the cost of a gang.
func Many[M any](n int) []*M {
	all, list := make([]M, n), make([]*M, n)
	for i := range all {
		list[i] = &all[i]
	}
	return list
}

// Size returns the encoded size of a message in bytes.
func Size(m Message) int { return m.SizeVT() }

// Bytes encodes a message.
func Bytes(m Message) []byte {
	data := make([]byte, m.SizeVT())
	fill(data, m)
	return data
}

// Append encodes a message and appends it to data.
func Append(data []byte, m Message) []byte {
	n := m.SizeVT()
	data = slices.Grow(data, n)[:len(data)+n]
	fill(data[len(data)-n:], m)
	return data
}

// fill encodes a message into data. It panics if the size does not match, because then the message was changed
// concurrently.
func fill(data []byte, m Message) {
	if n, err := m.MarshalToSizedBufferVT(data); err != nil || n != len(data) {
		panic("message changed while it was encoded")
	}
}
