package envelope

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/server/api"
)

// TestPassed checks that a message with one byte field is recognized by its beginning, in any number of pieces. Any
// other message is not, and can be decoded. A forwarded message is unchanged.
func TestPassed(t *testing.T) {
	const stdout, stderr = 3, 4
	bytes := make([]byte, 70_000)
	for what, c := range map[string]struct {
		said  *api.ExecOut
		bears bool
	}{
		"output": {&api.ExecOut{Stdout: bytes}, true}, "little": {&api.ExecOut{Stderr: []byte("x")}, true},
		"nothing": {&api.ExecOut{}, false}, "both": {&api.ExecOut{Stdout: bytes, Stderr: bytes}, false},
		"a session":        {&api.ExecOut{Session: "s"}, false},
		"output and more":  {&api.ExecOut{Stdout: bytes, StdoutEnds: true}, false},
		"more, and output": {&api.ExecOut{Begun: true, Stdout: bytes}, false},
		"its end":          {&api.ExecOut{End: &api.ExecEnd{Code: 1}}, false},
	} {
		text, err := proto.Marshal(c.said)
		if err != nil {
			t.Fatal(err)
		}
		for _, first := range []int{0, 1, 2, 3, 4, 5, 16_384, len(text)} {
			first = min(first, len(text))
			came := func() *Passed {
				var p Passed
				data := mem.BufferSlice{mem.SliceBuffer(text[:first]), mem.SliceBuffer(text[first:])}
				if err := (codec{}).Unmarshal(data, &p); err != nil {
					t.Fatal(err)
				}
				return &p
			}
			// A beginning in several pieces may be recognized less often, but never wrongly.
			if got := came().Bears(stdout, stderr); got != c.bears && (got || first > 4) {
				t.Errorf("%s, %d bytes first: bears output alone: %v", what, first, got)
			}
			var m api.ExecOut
			if err := came().Into(&m); err != nil || !proto.Equal(&m, c.said) {
				t.Errorf("%s, %d bytes first: it is decoded otherwise (%v)", what, first, err)
			}
			sent, err := codec{}.Marshal(came())
			if err != nil || string(sent.Materialize()) != string(text) {
				t.Errorf("%s, %d bytes first: %d bytes are handed on of %d (%v)", what, first, sent.Len(), len(text), err)
			}
		}
	}
	var broken Passed
	broken.receive(mem.BufferSlice{mem.SliceBuffer([]byte{3<<3 | 2, 200})})
	if broken.Bears(stdout) || broken.Into(&api.ExecOut{}) == nil {
		t.Error("a truncated message is forwarded")
	}
}
