package envelope

import (
	"bytes"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// This file owns the tests of the codec: frames pass unchanged, and everything else as with protobuf's codec.

// noted is a pool that counts and overwrites returned buffers, so that a later read is detected.
type noted struct{ back int }

func (*noted) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (p *noted) Put(b *[]byte) {
	p.back++
	for i := range *b {
		(*b)[i] = 0xee
	}
}

// pieces splits data as gRPC receives it.
func pieces(pool mem.BufferPool, data []byte, n int) (s mem.BufferSlice) {
	for part := range slices.Chunk(bytes.Clone(data), n) {
		s = append(s, mem.NewBuffer(&part, pool))
	}
	return s
}

// TestFramesPass checks that a frame arrives unchanged, in any number of pieces. It lasts until it is freed, and then
// returns to gRPC.
func TestFramesPass(t *testing.T) {
	data := bytes.Repeat([]byte("frame"), 10_000)
	for _, piece := range []int{len(data), len(data) / 2, 12_500, 2000} {
		pool := &noted{}
		received := pieces(pool, data, piece)
		var f Frame
		if err := (codec{}).Unmarshal(received, &f); err != nil {
			t.Fatal(err)
		}
		received.Free() // as gRPC does after the codec
		if !bytes.Equal(f.Bytes(), data) {
			t.Errorf("in pieces of %d the frame arrives changed", piece)
		}
		f.Free()
		if pool.back != len(received) {
			t.Errorf("%d of %d pieces were given back", pool.back, len(received))
		}
		if f.Bytes() != nil {
			t.Error("a freed frame has bytes")
		}
		f.Free() // a second call has no effect
	}
}

// TestFrameIsUsedAgain checks that receiving into a frame again releases the earlier content.
func TestFrameIsUsedAgain(t *testing.T) {
	pool := &noted{}
	var f Frame
	for range 3 {
		one := pieces(pool, make([]byte, 4<<10), 8<<10)
		if err := (codec{}).Unmarshal(one, &f); err != nil {
			t.Fatal(err)
		}
		one.Free()
	}
	if pool.back != 2 {
		t.Errorf("%d of 3 buffers were returned, and one is in use", pool.back)
	}
	if err := (codec{}).Unmarshal(nil, &f); err != nil || len(f.Bytes()) != 0 || pool.back != 3 {
		t.Errorf("an empty frame: %v, %d bytes, %d given back", err, len(f.Bytes()), pool.back)
	}
}

// TestFramesLeave checks that a packed frame is sent without a copy, and that an empty frame is sent as no bytes.
func TestFramesLeave(t *testing.T) {
	f := Pack("a", "b", []Letter{{Kind: "k", To: "t"}})
	sent, err := (codec{}).Marshal(f)
	if err != nil || len(sent) != 1 || &sent[0].ReadOnlyData()[0] != &f.Bytes()[0] {
		t.Errorf("%v pieces, %v", len(sent), err)
	}
	if sent, err := (codec{}).Marshal(&Frame{}); err != nil || sent.Len() != 0 {
		t.Errorf("an empty frame leaves as %d bytes, %v", sent.Len(), err)
	}
}

// TestOthersPass checks that the other services of the server work as with protobuf's codec.
func TestOthersPass(t *testing.T) {
	theirs := encoding.GetCodecV2("proto")
	if (codec{}).Name() != theirs.Name() {
		t.Errorf("the codec is called %s", (codec{}).Name())
	}
	want := &actor.PID{Address: "a", Id: "b"}
	data, err := (codec{}).Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := theirs.Marshal(want)
	if err != nil || !bytes.Equal(data.Materialize(), plain.Materialize()) {
		t.Errorf("%x, want %x, %v", data.Materialize(), plain.Materialize(), err)
	}
	var got actor.PID
	if err := (codec{}).Unmarshal(plain, &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("%v, %v", &got, err)
	}
	if _, err := (codec{}).Marshal("text"); err == nil {
		t.Error("text is taken for a message")
	}
	if err := (codec{}).Unmarshal(plain, new(int)); err == nil {
		t.Error("a number is taken for a message")
	}
}
