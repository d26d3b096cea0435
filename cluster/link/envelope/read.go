package envelope

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// This file owns reading a frame without allocations for its parts, and the limits of a batch.

// Batch is a received MessageBatch. Its lists refer to bytes of the frame. The zero value is ready, and may be used for
// several frames in turn.
type Batch struct {
	kinds, targets, envelopes, senders [][]byte
}

// Received is one received message, as bytes of the frame.
type Received struct {
	Kind, Data     []byte
	Target, Sender PID // empty if the message has no sender
}

// PID is an actor's address and path.
type PID struct{ Address, Path []byte }

// Each reads the batches of a frame into b, one after the other. For a part that is not a batch, exceeds the limits or
// is invalid, it yields false with an empty b. The next part may be valid again.
func (b *Batch) Each(frame []byte) iter.Seq[bool] {
	return func(yield func(bool) bool) {
		p, rest := next(frame)
		for ; p.ok; p, rest = next(rest) {
			ok := p.number == frameBatch && p.kind == protowire.BytesType && b.parse(p.bytes)
			if !ok {
				b.envelopes = b.envelopes[:0]
			}
			if !yield(ok) {
				return
			}
		}
		if !whole(rest) {
			b.envelopes = b.envelopes[:0]
			yield(false)
		}
	}
}

// Len returns the number of messages in the batch.
func (b *Batch) Len() int { return len(b.envelopes) }

// At reads one message's envelope and looks up its indexes. It returns false if an index is invalid or if the message
// is not protobuf.
func (b *Batch) At(i int) (m Received, ok bool) {
	var kind, target, sender int32
	p, rest := next(b.envelopes[i])
	for ; p.ok; p, rest = next(rest) {
		switch p.number {
		case envelopeType:
			kind = int32(p.value)
		case envelopeData:
			m.Data = p.bytes
		case envelopeTarget:
			target = int32(p.value)
		case envelopeSender:
			sender = int32(p.value)
		case envelopeSerializer:
			if p.value != 0 {
				return m, false // not protobuf
			}
		}
	}
	if !whole(rest) || !within(kind, b.kinds) || !within(target, b.targets) {
		return m, false
	}
	m.Kind = b.kinds[kind]
	if m.Target, ok = readPID(b.targets[target]); !ok || sender == 0 {
		return m, ok
	}
	if !within(sender-1, b.senders) {
		return m, false
	}
	m.Sender, ok = readPID(b.senders[sender-1])
	return m, ok
}

// Forget releases the frame's bytes, and lists that have grown long.
func (b *Batch) Forget() {
	if cap(b.envelopes)+cap(b.targets)+cap(b.senders)+cap(b.kinds) > 64 {
		*b = Batch{}
		return
	}
	for _, list := range [][][]byte{b.kinds, b.targets, b.envelopes, b.senders} {
		clear(list[:cap(list)])
	}
}

// parse finds the lists. It refuses more entries than this package's own batches may have.
func (b *Batch) parse(content []byte) bool {
	b.kinds, b.targets, b.envelopes, b.senders = b.kinds[:0], b.targets[:0], b.envelopes[:0], b.senders[:0]
	p, rest := next(content)
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
			continue // a newer peer's field
		}
		if p.kind != protowire.BytesType || len(*list) == MaxLetters {
			return false
		}
		*list = append(*list, p.bytes)
	}
	return whole(rest)
}

func within(i int32, list [][]byte) bool { return i >= 0 && int(i) < len(list) }

func readPID(b []byte) (to PID, ok bool) {
	p, rest := next(b)
	for ; p.ok; p, rest = next(rest) {
		switch p.number {
		case pidAddress:
			to.Address = p.bytes
		case pidPath:
			to.Path = p.bytes
		}
	}
	return to, whole(rest)
}

// field holds one field of a message: its bytes or the number of its varint, whichever it has.
type field struct {
	ok     bool
	number protowire.Number
	kind   protowire.Type
	bytes  []byte
	value  uint64
}

// next returns the first field and the rest. A field that is not ok ends the loop: at the end of b, or at an invalid
// field. The function whole distinguishes the two.
func next(b []byte) (p field, rest []byte) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return field{}, b
	}
	p = field{ok: true, number: number, kind: kind}
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
		return field{}, b
	}
	return p, b[n+m:]
}

// whole reports whether a loop reached the end of its bytes.
func whole(rest []byte) bool { return len(rest) == 0 }
