package main

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/server/api"
)

// TestPiecesAreLittle: what goes into a task goes in pieces that the gate does not take for large requests, which come
// at half a megabyte a second, in whatever pieces it was written; and all of it comes.
func TestPiecesAreLittle(t *testing.T) {
	const little = 64<<10 + 256 // server/authn
	file := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	var came bytes.Buffer
	sent := stdinOf{func(in *api.ExecIn) error {
		if n := proto.Size(in); n > little {
			t.Fatalf("a piece has %d bytes", n)
		}
		_, err := came.Write(in.GetStdin())
		return err
	}}
	for _, written := range []int{1 << 20, 0, 1<<20 - 1, 1} { // as an archive is: a buffer of it at once
		n, err := sent.Write(file[came.Len():][:written])
		if n != written || err != nil {
			t.Errorf("%d of %d bytes were sent: %v", n, written, err)
		}
	}
	if !bytes.Equal(came.Bytes(), file) {
		t.Error("something else came")
	}
	if n, err := (stdinOf{func(*api.ExecIn) error { return io.EOF }}).Write(file); n != 0 || err != io.EOF {
		t.Errorf("a stream that is over takes %d bytes: %v", n, err)
	}
}
