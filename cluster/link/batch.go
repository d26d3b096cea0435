package link

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns taking a frame apart without making anything of it: what is in
// it stays bytes until a row of the table wants it. The field numbers are those
// of Proto.Actor's remote.proto and actor.proto.

const (
	frameBatch = 1 // RemoteMessage.message_batch

	batchTypeNames = 1
	batchTargets   = 2
	batchEnvelopes = 3
	batchSenders   = 4

	envelopeType       = 1
	envelopeData       = 2
	envelopeTarget     = 3
	envelopeSender     = 4
	envelopeSerializer = 5

	pidAddress = 1
	pidPath    = 2
)

// part is one field; bytes or number of a varint, whichever it has.
type part struct {
	ok     bool
	number protowire.Number
	kind   protowire.Type
	bytes  []byte
	value  uint64
}

// next takes the first field off. A part that is not ok ends a walk: at the end
// of b, or where it makes no sense, which whole tells apart.
func next(b []byte) (p part, rest []byte) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return part{}, b
	}
	p = part{ok: true, number: number, kind: kind}
	m := 0
	switch kind {
	case protowire.BytesType:
		p.bytes, m = protowire.ConsumeBytes(b[n:])
	case protowire.VarintType:
		p.value, m = protowire.ConsumeVarint(b[n:])
	default:
		m = protowire.ConsumeFieldValue(number, kind, b[n:])
	}
	if m < 0 {
		return part{}, b
	}
	return p, b[n+m:]
}

// whole reports whether a walk came to the end of what it walked through.
func whole(rest []byte) bool { return len(rest) == 0 }

// batch is a MessageBatch, its lists as bytes.
type batch struct {
	kinds, targets, envelopes, senders [][]byte
}

// parse finds the lists. More of anything than a batch of ours may hold is refused.
func (b *batch) parse(bytes []byte) bool {
	b.kinds, b.targets, b.envelopes, b.senders = b.kinds[:0], b.targets[:0], b.envelopes[:0], b.senders[:0]
	p, rest := next(bytes)
	for ; p.ok; p, rest = next(rest) {
		var list *[][]byte
		switch p.number {
		case batchTypeNames:
			list = &b.kinds
		case batchTargets:
			list = &b.targets
		case batchEnvelopes:
			list = &b.envelopes
		case batchSenders:
			list = &b.senders
		default:
			continue // a newer peer's
		}
		if p.kind != protowire.BytesType || len(*list) == batchMessages {
			b.envelopes = b.envelopes[:0]
			return false
		}
		*list = append(*list, p.bytes)
	}
	return whole(rest)
}

// forget lets go of the frame's bytes, and of lists that grew long once.
func (b *batch) forget() {
	if cap(b.envelopes)+cap(b.targets)+cap(b.senders)+cap(b.kinds) > 64 {
		*b = batch{}
		return
	}
	for _, list := range [][][]byte{b.kinds, b.targets, b.envelopes, b.senders} {
		clear(list[:cap(list)])
	}
}

// incoming is one message of a batch, still bytes.
type incoming struct {
	kind, data     []byte
	target, sender pid
}

type pid struct{ address, path []byte }

// letter reads an envelope and looks up what its indexes mean.
func (b *batch) letter(envelope []byte) (l incoming, ok bool) {
	var kind, target, sender int32
	p, rest := next(envelope)
	for ; p.ok; p, rest = next(rest) {
		switch p.number {
		case envelopeType:
			kind = int32(p.value)
		case envelopeData:
			l.data = p.bytes
		case envelopeTarget:
			target = int32(p.value)
		case envelopeSender:
			sender = int32(p.value)
		case envelopeSerializer:
			if p.value != 0 {
				return l, false // not protobuf
			}
		}
	}
	if !whole(rest) || !within(kind, b.kinds) || !within(target, b.targets) {
		return l, false
	}
	l.kind = b.kinds[kind]
	if l.target, ok = readPID(b.targets[target]); !ok || sender == 0 {
		return l, ok
	}
	if !within(sender-1, b.senders) {
		return l, false
	}
	l.sender, ok = readPID(b.senders[sender-1])
	return l, ok
}

func within(i int32, list [][]byte) bool { return i >= 0 && int(i) < len(list) }

func readPID(b []byte) (to pid, ok bool) {
	p, rest := next(b)
	for ; p.ok; p, rest = next(rest) {
		switch p.number {
		case pidAddress:
			to.address = p.bytes
		case pidPath:
			to.path = p.bytes
		}
	}
	return to, whole(rest)
}

// objects is what remains of a budget when every part of a message is counted;
// negative: too little, or it cannot be decoded. An empty part is two bytes here
// and a hundred and fifty when it is decoded.
func objects(d protoreflect.MessageDescriptor, data []byte, budget int) int {
	fields := d.Fields()
	p, rest := next(data)
	for ; p.ok && budget >= 0; p, rest = next(rest) {
		if p.kind != protowire.BytesType {
			continue
		}
		if f := fields.ByNumber(p.number); f != nil && f.Message() != nil {
			budget = objects(f.Message(), p.bytes, budget-1)
		}
	}
	if !whole(rest) {
		return -1
	}
	return budget
}
