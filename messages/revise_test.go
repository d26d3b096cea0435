package messages

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestRevise(t *testing.T) {
	first := &AttemptRecord{Job: "j", Token: &Token{Epoch: 1, Counter: 2}, Run: 1, Places: []*Place{{Rank: 0, Node: "a"}, {Rank: 1, Node: "b"}}}
	first.ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 7}) // a field that a newer version knows
	was := proto.Clone(first)
	next := Revise(first)
	if !proto.Equal(next, first) {
		t.Fatalf("%v is not %v", next, first)
	}
	if &next.Places[0] != &first.Places[0] {
		t.Error("what lies below was copied")
	}
	next.Run, next.End, next.Places = 2, &End{Cause: Cause_CAUSE_SUCCEEDED}, []*Place{{Rank: 0, Node: "c"}}
	if !proto.Equal(first, was) {
		t.Errorf("the version before has become %v", first)
	}
}
