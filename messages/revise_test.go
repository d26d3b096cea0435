package messages

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
)

// TestRevise checks that the next version has every field of the earlier version, including unknown fields, and shares
// its lists and nested messages.
func TestRevise(t *testing.T) {
	for name, revise := range map[string]func(Message) Message{
		"JobRecord":     func(m Message) Message { return m.(*JobRecord).Revise() },
		"AttemptRecord": func(m Message) Message { return m.(*AttemptRecord).Revise() },
		"Place":         func(m Message) Message { return m.(*Place).Revise() },
	} {
		first := filled(published(t)[name], 3)
		first.SetUnknown([]byte{0xf8, 0x3f, 7})
		next := revise(first.Interface().(Message))
		if !proto.Equal(next, first.Interface()) {
			t.Errorf("%v is not %v", next, first)
		}
		was, is := reflect.ValueOf(first.Interface()).Elem(), reflect.ValueOf(next).Elem()
		for i := range was.NumField() {
			field := was.Type().Field(i)
			if kind := field.Type.Kind(); field.IsExported() && (kind == reflect.Pointer || kind == reflect.Slice) &&
				was.Field(i).Pointer() != is.Field(i).Pointer() {
				t.Errorf("%s.%s was copied", name, field.Name)
			}
		}
	}
}

func TestReviseLeavesTheVersionBefore(t *testing.T) {
	first := &AttemptRecord{
		Job: "j", Token: &Token{Epoch: 1, Counter: 2}, Run: 1, Places: []*Place{{Rank: 0, Node: "a"}, {Rank: 1, Node: "b"}},
	}
	was := proto.Clone(first)
	next := first.Revise()
	next.Run, next.End, next.Places = 2, &End{Cause: Cause_CAUSE_SUCCEEDED}, []*Place{{Rank: 0, Node: "c"}}
	if !proto.Equal(first, was) {
		t.Errorf("the version before has become %v", first)
	}
}

// TestBrief checks that the brief form of an attempt lacks no field of its history. Spares belong to its nodes.
func TestBrief(t *testing.T) {
	first := filled(published(t)["AttemptRecord"], 3).Interface().(*AttemptRecord)
	want := first.Revise()
	want.Places, want.Rendezvous, want.StartByLeftMs, want.Told, want.Victims = nil, nil, 0, nil, nil
	want.Spares = nil
	want.Verdict = proto.Clone(first.Verdict).(*Verdict)
	want.Verdict.Evidence.Output = nil
	if brief := first.Brief(); !proto.Equal(brief, want) {
		t.Errorf("%v is not %v", brief, want)
	}
}
