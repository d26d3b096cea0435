package envelope

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns the tests that compare the format with its reference: the code that is generated from Proto.Actor's
// own descriptions.

// TestFieldNumbers checks names and numbers against the library's descriptors.
func TestFieldNumbers(t *testing.T) {
	for _, c := range []struct {
		m      proto.Message
		number protoreflect.FieldNumber
		name   string
	}{
		{&remote.RemoteMessage{}, frameBatch, "message_batch"},
		{&remote.MessageBatch{}, batchTypeNames, "type_names"}, {&remote.MessageBatch{}, batchTargets, "targets"},
		{&remote.MessageBatch{}, batchEnvelopes, "envelopes"}, {&remote.MessageBatch{}, batchSenders, "senders"},
		{&remote.MessageEnvelope{}, envelopeType, "type_id"}, {&remote.MessageEnvelope{}, envelopeData, "message_data"},
		{&remote.MessageEnvelope{}, envelopeTarget, "target"}, {&remote.MessageEnvelope{}, envelopeSender, "sender"},
		{&remote.MessageEnvelope{}, envelopeSerializer, "serializer_id"},
		{&actor.PID{}, pidAddress, "Address"}, {&actor.PID{}, pidPath, "Id"},
	} {
		f := c.m.ProtoReflect().Descriptor().Fields().ByNumber(c.number)
		if f == nil || string(f.Name()) != c.name {
			t.Errorf("%T field %d is %v, want %s", c.m, c.number, f, c.name)
		}
	}
	theirs := remote.Remoting_ServiceDesc
	if theirs.ServiceName != service || len(theirs.Streams) != 1 {
		t.Fatalf("the service is %s with %d streams", theirs.ServiceName, len(theirs.Streams))
	}
	s := theirs.Streams[0]
	if s.StreamName != method.StreamName ||
		s.ClientStreams != method.ClientStreams || s.ServerStreams != method.ServerStreams {
		t.Errorf("the method is %+v", s)
	}
}

// checkRead checks that a frame of one batch is read as Proto.Actor reads it, and refused if it exceeds the limits.
func checkRead(t *testing.T, frame []byte, want *remote.MessageBatch) {
	t.Helper()
	lists := max(len(want.TypeNames), len(want.Targets), len(want.Envelopes), len(want.Senders))
	var b Batch
	parts := 0
	for ok := range b.Each(frame) {
		parts++
		if ok != (lists <= MaxLetters) {
			t.Fatalf("a batch with a list of %d is read: %v", lists, ok)
		}
		if ok && b.Len() != len(want.Envelopes) {
			t.Fatalf("%d of %d letters", b.Len(), len(want.Envelopes))
		}
		for i := range b.Len() {
			got, ok := b.At(i)
			checkLetter(t, got, ok, want, want.Envelopes[i])
		}
	}
	if parts != 1 {
		t.Fatalf("%d parts", parts)
	}
}

func checkLetter(t *testing.T, got Received, ok bool, b *remote.MessageBatch, want *remote.MessageEnvelope) {
	t.Helper()
	good := want.SerializerId == 0 && want.TypeId >= 0 && int(want.TypeId) < len(b.TypeNames) &&
		want.Target >= 0 && int(want.Target) < len(b.Targets) && want.Sender >= 0 && int(want.Sender) <= len(b.Senders)
	if ok != good {
		t.Fatalf("%v is read: %v", want, ok)
	}
	if !ok {
		return
	}
	target, sender := b.Targets[want.Target], &actor.PID{}
	if want.Sender > 0 {
		sender = b.Senders[want.Sender-1]
	}
	if string(got.Kind) != b.TypeNames[want.TypeId] || !bytes.Equal(got.Data, want.MessageData) ||
		string(got.Target.Address) != target.Address || string(got.Target.Path) != target.Id ||
		string(got.Sender.Address) != sender.Address || string(got.Sender.Path) != sender.Id {
		t.Fatalf("%v is read as %q", want, got)
	}
}

// recorded returns frames of agents and schedulers that were written before this package existed.
func recorded(tb testing.TB) [][]byte {
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "*.frame"))
	if err != nil || len(paths) != 2 {
		tb.Fatalf("%d recorded frames, %v", len(paths), err)
	}
	var frames [][]byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		frame, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
		if err != nil {
			tb.Fatal(err)
		}
		frames = append(frames, frame)
	}
	return frames
}

// FuzzRead checks that reading any bytes neither panics nor exceeds the limits. A frame that is valid for Proto.Actor's
// code has the same meaning here.
func FuzzRead(f *testing.F) {
	for _, frame := range recorded(f) {
		f.Add(frame)
		f.Add(frame[:len(frame)/2])
	}
	for _, b := range []*remote.MessageBatch{
		{}, {Envelopes: []*remote.MessageEnvelope{{}}},
		{
			TypeNames: []string{"k"}, Targets: []*actor.PID{{Address: "a", Id: "p"}}, Senders: []*actor.PID{{Id: "s"}},
			Envelopes: []*remote.MessageEnvelope{
				{Sender: 1}, {Sender: 2}, {Sender: -1}, {Target: 1}, {Target: -1 << 31}, {TypeId: -1}, {SerializerId: 1},
			},
		},
		{Targets: make([]*actor.PID, MaxLetters+1)}, {TypeNames: make([]string, MaxLetters)},
	} {
		for i := range b.Targets {
			if b.Targets[i] == nil {
				b.Targets[i] = &actor.PID{}
			}
		}
		f.Add(marshalled(f, b))
	}
	f.Add([]byte{8, 1}) // the batch's field number with a number as its value
	f.Fuzz(func(t *testing.T, frame []byte) {
		var b Batch
		for ok := range b.Each(frame) {
			if n := b.Len(); n > MaxLetters || !ok && n > 0 {
				t.Fatalf("%d letters, ok %v", n, ok)
			}
			for i := range b.Len() {
				b.At(i)
			}
		}
		var m remote.RemoteMessage
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(frame, &m) == nil && m.GetMessageBatch() != nil {
			checkRead(t, marshalled(t, m.GetMessageBatch()), m.GetMessageBatch())
		}
	})
}

func marshalled(tb testing.TB, b *remote.MessageBatch) []byte {
	tb.Helper()
	data, err := proto.Marshal(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// FuzzPack checks that Proto.Actor's code and this package read all letters of a frame unchanged. The frame is no
// longer than the space allocated for it.
func FuzzPack(f *testing.F) {
	f.Add("node-n1", "scheduler", "synapse/node synapse/scheduler synapse.v1.Report", []byte("data"), uint16(3))
	f.Add("", "", "", []byte(nil), uint16(0))
	f.Add("a", "b", "a b c d e f g h i j k l m n o p q r s t", []byte{0}, uint16(MaxLetters))
	f.Add(strings.Repeat("a", 300), strings.Repeat("b", 300), strings.Repeat("x", 200), make([]byte, 300), uint16(2))
	f.Fuzz(func(t *testing.T, from, to, words string, data []byte, n uint16) {
		if !utf8.ValidString(from) || !utf8.ValidString(to) || !utf8.ValidString(words) {
			return // protobuf strings must be UTF-8
		}
		letters := lettersOf(words, data, int(n)%(MaxLetters+1))
		packed := Pack(from, to, letters).Bytes()
		if most := maxSize(from, to, letters); len(packed) > most {
			t.Errorf("%d bytes, and %d were made room for", len(packed), most)
		}
		var m remote.RemoteMessage
		if err := proto.Unmarshal(packed, &m); err != nil {
			t.Fatal(err)
		}
		b := m.GetMessageBatch()
		if len(b.GetEnvelopes()) != len(letters) {
			t.Fatalf("%d of %d letters", len(b.GetEnvelopes()), len(letters))
		}
		for i, e := range b.GetEnvelopes() {
			l, target := letters[i], b.Targets[e.Target]
			sender := &actor.PID{}
			if e.Sender > 0 {
				sender = b.Senders[e.Sender-1]
			}
			if b.TypeNames[e.TypeId] != l.Kind || target.Id != l.To || target.Address != to ||
				!bytes.Equal(e.MessageData, l.Data) ||
				e.Sender == 0 != (l.Sender == "") || sender.Id != l.Sender || e.Sender > 0 && sender.Address != from {
				t.Fatalf("letter %d, %q, is read as %v", i, l, e)
			}
		}
		checkRead(t, packed, b)
	})
}

// lettersOf creates letters from words. Their names repeat, and change at every letter or not at all.
func lettersOf(words string, data []byte, n int) []Letter {
	names := append(strings.Split(words, " "), "")
	letters := make([]Letter, n)
	for i := range letters {
		letters[i] = Letter{
			Kind: names[i%len(names)], To: names[i/2%len(names)], Sender: names[i*7%len(names)], Data: data[:i%(len(data)+1)],
		}
	}
	return letters
}

// TestPackedAsBefore checks that a recorded frame is packed again byte for byte from its content.
func TestPackedAsBefore(t *testing.T) {
	for _, frame := range recorded(t) {
		var b Batch
		var letters []Letter
		var from, to string
		for ok := range b.Each(frame) {
			if !ok || b.Len() < 11 {
				t.Fatalf("%d letters", b.Len())
			}
			for i := range b.Len() {
				m, ok := b.At(i)
				if !ok {
					t.Fatalf("letter %d makes no sense", i)
				}
				to = string(m.Target.Address)
				if m.Sender.Address != nil {
					from = string(m.Sender.Address)
				}
				letters = append(letters, Letter{string(m.Kind), string(m.Target.Path), string(m.Sender.Path), m.Data})
			}
		}
		if again := Pack(from, to, letters).Bytes(); !bytes.Equal(again, frame) {
			t.Errorf("packed as\n%x, was\n%x", again, frame)
		}
	}
}

// TestBatchIsUsedAgain checks that a reused batch holds nothing of the last frame, even if that exceeded the limits.
func TestBatchIsUsedAgain(t *testing.T) {
	full := marshalled(t, &remote.MessageBatch{Envelopes: manyEnvelopes(MaxLetters)})
	over := marshalled(t, &remote.MessageBatch{Envelopes: manyEnvelopes(MaxLetters + 1)})
	var b Batch
	for _, c := range []struct {
		frame []byte
		want  []int // letters in each part; -1: not a batch
	}{
		{full, []int{MaxLetters}}, {over, []int{-1}}, {append(over, full...), []int{-1, MaxLetters}},
		{append(full[:len(full):len(full)], 10), []int{MaxLetters, -1}}, {nil, nil}, {[]byte{0xff}, []int{-1}},
	} {
		var got []int
		for ok := range b.Each(c.frame) {
			if !ok {
				got = append(got, -1)
				continue
			}
			got = append(got, b.Len())
		}
		if len(got) != len(c.want) {
			t.Fatalf("parts of %v, want %v", got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("parts of %v, want %v", got, c.want)
			}
		}
		b.Forget()
		if cap(b.envelopes) > 64 {
			t.Errorf("a list of %d is kept", cap(b.envelopes))
		}
	}
}

func manyEnvelopes(n int) []*remote.MessageEnvelope {
	many := make([]*remote.MessageEnvelope, n)
	for i := range many {
		many[i] = &remote.MessageEnvelope{}
	}
	return many
}
