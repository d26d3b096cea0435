package main

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/server/api"
)

// TestPiecesAreLittle checks that data is sent to a task completely, and in pieces that do not count as large
// requests, for any size of a write. Large requests would be limited to about 0.5 MB/s.
func TestPiecesAreLittle(t *testing.T) {
	const little = 64<<10 + 256 // littleBytes of server/authn
	file := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	var came bytes.Buffer
	sent := stdinOf{func(in *api.ExecIn) error {
		if n := proto.Size(in); n > little {
			t.Fatalf("a piece has %d bytes", n)
		}
		_, err := came.Write(in.GetStdin())
		return err
	}}
	for _, written := range []int{1 << 20, 0, 1<<20 - 1, 1} { // an archive is written in large buffers
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
