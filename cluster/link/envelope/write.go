package envelope

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file owns writing: letters become a frame of one batch, written as bytes, because their contents are bytes
// already.

// Letter is one message that is to be sent.
type Letter struct {
	Kind   string // the type's name
	To     string // the path of the actor
	Sender string // likewise; empty: none
	Data   []byte
}

// Pack puts letters from one address to another into a frame: names are said once, and meant by index.
func Pack(from, to string, letters []Letter) *Frame {
	var kinds, targets, senders names
	frame := make([]byte, frameHead, maxSize(from, to, letters))
	for i := range letters {
		l := &letters[i]
		kind, target, sender := kinds.index(l.Kind), targets.index(l.To), 0
		if l.Sender != "" {
			sender = senders.index(l.Sender) + 1 // 0 is no sender
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
	// How long the batch is stands before it, and is known only now.
	var head [frameHead]byte
	written := appendHead(head[:0], frameBatch, len(frame)-frameHead)
	begin := frameHead - len(written)
	copy(frame[begin:], written)
	return &Frame{mem.SliceBuffer(frame[begin:])}
}

const (
	frameHead  = 1 + 5                     // room for a tag and a length
	letterHead = 2*frameHead + 3*frameHead // for an envelope, its data and three indexes
	nameHead   = 3 * frameHead             // for a PID and its two words
)

// maxSize is the most that a frame of these letters takes. A name counts wherever it follows another one, which is
// once at least; so most frames are given the room that they need and hardly more.
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

// appendIndex leaves zeros out, as protobuf does.
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

// names numbers what it is asked for. Most batches hold a name or two.
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
