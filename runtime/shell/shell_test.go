package shell

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// TestFrames checks that frames arrive unchanged. A truncated or oversized frame is an error, and never the end.
func TestFrames(t *testing.T) {
	var line bytes.Buffer
	long := bytes.Repeat([]byte("x"), PieceBytes)
	for kind, body := range map[Kind][]byte{Stdin: []byte("word"), StdinEnds: nil, Stdout: long} {
		if err := Send(&line, kind, body); err != nil {
			t.Fatal(err)
		}
		got, text, err := Receive(&line)
		if err != nil || got != kind || !bytes.Equal(text, body) {
			t.Errorf("%c: %c, %d bytes, %v", kind, got, len(text), err)
		}
	}
	if _, _, err := Receive(&line); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	if Send(&line, Stdin, append(long, 'x')) == nil || line.Len() > 0 {
		t.Error("a frame that is too long was sent")
	}
	for _, bad := range []string{"i", "i\x00\x00\x00\x04wor", "i\xff\xff\xff\xff"} {
		if _, _, err := Receive(bytes.NewReader([]byte(bad))); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzReceive checks that any input is a frame or an error.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("i\x00\x00\x00\x04word"))
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, body, err := Receive(bytes.NewReader(text))
		if err == nil && (len(body) > PieceBytes || byte(kind) != text[0]) {
			t.Errorf("%c with %d bytes", kind, len(body))
		}
	})
}
