package envelope

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file owns writing: letters become a frame with one batch. It is written as bytes, because the contents of
// letters are already bytes.

// Letter is one message to send.
type Letter struct {
	Kind   string // name of the type
	To     string // path of the actor
	Sender string // path of the sender; empty: none
	Data   []byte
}

// Pack puts letters from one address to another into a frame. Each name is written once and referred to by index.
func Pack(from, to string, letters []Letter) *Frame {
	var kinds, targets, senders names
	frame := make([]byte, frameHead, maxSize(from, to, letters))
	for i := range letters {
		l := &letters[i]
		kind, target, sender := kinds.index(l.Kind), targets.index(l.To), 0
		if l.Sender != "" {
			sender = senders.index(l.Sender) + 1 // 0 means no sender
		}
		size := sizeIndex(kind) + sizeIndex(target) + sizeIndex(sender) + 1 + protowire.SizeBytes(len(l.Data))
		frame = appendHead(frame, batchEnvelopes, size)
		frame = appendIndex(frame, envelopeType, kind)
		frame = append(appendHead(frame, envelopeData, len(l.Data)), l.Data...)
		frame = appendIndex(frame, envelopeTarget, target)
		frame = appendIndex(frame, envelopeSender, sender)
	}
	for _, kind := range kinds.list {
		frame = append(appendHead(frame, batchTypeNames, len(kind)), kind...)
	}
	frame = appendPIDs(frame, batchTargets, to, targets.list)
	frame = appendPIDs(frame, batchSenders, from, senders.list)
	// The length of the batch precedes it, and is known only now.
	var head [frameHead]byte
	written := appendHead(head[:0], frameBatch, len(frame)-frameHead)
	begin := frameHead - len(written)
	copy(frame[begin:], written)
	return &Frame{mem.SliceBuffer(frame[begin:])}
}

const (
	frameHead  = 1 + 5                     // space for a tag and a length
	letterHead = 2*frameHead + 3*frameHead // for an envelope, its data and three indexes
	nameHead   = 3 * frameHead             // for a PID and its two strings
)

// maxSize returns an upper bound for a frame of these letters. A name counts whenever it differs from the previous one,
// which is at least once. The bound of most frames is therefore only slightly above their size.
func maxSize(from, to string, letters []Letter) int {
	size, before := frameHead, &Letter{}
	for i := range letters {
		l := &letters[i]
		size += letterHead + len(l.Data)
		if i == 0 || l.Kind != before.Kind {
			size += nameHead + len(l.Kind)
		}
		if i == 0 || l.To != before.To {
			size += nameHead + len(to) + len(l.To)
		}
		if l.Sender != before.Sender {
			size += nameHead + len(from) + len(l.Sender)
		}
		before = l
	}
	return size
}

func appendHead(b []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
}

// appendIndex omits zeros, as protobuf does.
func appendIndex(b []byte, number protowire.Number, i int) []byte {
	if i == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(i))
}

func sizeIndex(i int) int {
	if i == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(i))
}

func appendPIDs(b []byte, number protowire.Number, address string, paths []string) []byte {
	for _, path := range paths {
		b = appendHead(b, number, 2+protowire.SizeBytes(len(address))+protowire.SizeBytes(len(path)))
		b = append(appendHead(b, pidAddress, len(address)), address...)
		b = append(appendHead(b, pidPath, len(path)), path...)
	}
	return b
}

// names assigns numbers to names. Most batches have one or two names.
type names struct {
	list  []string
	known map[string]int
}

func (n *names) index(name string) int {
	if len(n.list) > 0 && n.list[len(n.list)-1] == name {
		return len(n.list) - 1
	}
	if i, ok := n.known[name]; ok {
		return i
	}
	if len(n.list) == 1 && n.known == nil {
		n.known = map[string]int{n.list[0]: 0}
	}
	i := len(n.list)
	n.list = append(n.list, name)
	if n.known != nil {
		n.known[name] = i
	}
	return i
}
