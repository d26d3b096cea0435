package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/messages"
)

// This file checks that programs get every fact of an explanation.

// filled sets every field of a message to a distinct value, and records the numbers and texts.
func filled(m protoreflect.Message, values *[]string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.FullName() == "synapse.v1.Explanation.job" {
			continue // it is at the top of the object
		}
		value := func() protoreflect.Value {
			n := len(*values) + 1001
			text := fmt.Sprint(n)
			switch f.Kind() {
			case protoreflect.StringKind:
				*values = append(*values, `"v`+text+`"`)
				return protoreflect.ValueOfString("v" + text)
			case protoreflect.Int32Kind:
				*values = append(*values, text)
				return protoreflect.ValueOfInt32(int32(n))
			case protoreflect.Int64Kind:
				written := text
				switch {
				case strings.HasSuffix(string(f.Name()), "_unix_ms"): // as a time of day
					written = `"` + stamp(int64(n)*1000) + `"`
				case strings.HasSuffix(string(f.Name()), "_ms"): // as seconds
				default:
					*values = append(*values, text)
					return protoreflect.ValueOfInt64(int64(n))
				}
				*values = append(*values, written)
				return protoreflect.ValueOfInt64(int64(n) * 1000)
			case protoreflect.BoolKind:
				written := `: true`
				if f.Name() == "unlearned" {
					written = `"estimateFrom": "default"`
				}
				*values = append(*values, written)
				return protoreflect.ValueOfBool(true)
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(2)
			}
			below := m.NewField(f)
			if f.IsList() {
				below = below.List().NewElement()
			}
			filled(below.Message(), values)
			return below
		}()
		if f.IsList() {
			m.Mutable(f).List().Append(value)
		} else {
			m.Set(f, value)
		}
	}
}

// TestExplanationObject checks that `explain -o json` contains every fact with its value.
func TestExplanationObject(t *testing.T) {
	e := &messages.Explanation{Job: &messages.JobName{Id: "j6quxrz", ShortId: "j6quxr", Name: "big", Owner: "ann"}}
	var values []string
	filled(e.ProtoReflect(), &values)
	reply := &messages.ExplainJobReply{Explanation: e, Text: "the text"}
	var b bytes.Buffer
	if err := Explanation(&b, Style{Format: "json"}, reply, e.Job, "queued"); err != nil || !json.Valid(b.Bytes()) {
		t.Fatal(err, b.String())
	}
	wanted := map[string]int{}
	for _, value := range append(values, `"j6quxrz"`, `"j6quxr"`, `"big"`, `"ann"`, `"the text"`) {
		if value == `"`+e.Phase+`"` {
			value = `"queued"` // the phase is that of the status
		}
		wanted[value]++
	}
	for value, n := range wanted {
		if got := strings.Count(b.String(), value); got < n {
			t.Errorf("%s is there %d times, want %d, in\n%s", value, got, n, b.String())
		}
	}
	if len(values) < 100 {
		t.Errorf("only %d values were looked for", len(values))
	}
}

// TestExplanationOfAnEarlierScheduler checks that the text of a scheduler without facts is printed.
func TestExplanationOfAnEarlierScheduler(t *testing.T) {
	reply := &messages.ExplainJobReply{Text: "needs 8 GPUs"}
	for want, job := range map[string]*messages.JobName{
		"needs 8 GPUs\n": {Id: "j1", Name: "a"}, "a: needs 8 GPUs\n": {Name: "a"},
	} {
		var b bytes.Buffer
		if err := Explanation(&b, Style{Width: 80}, reply, job, "queued"); err != nil || b.String() != want {
			t.Errorf("%q, want %q (%v)", b.String(), want, err)
		}
	}
	e := &messages.Explanation{Job: &messages.JobName{ShortId: "j1"}, Phase: "running"}
	var b bytes.Buffer
	if err := Explanation(&b, Style{Width: 80}, &messages.ExplainJobReply{Text: "?", Explanation: e}, e.Job,
		"running"); err != nil || b.String() != "j1 is running\n" {
		t.Errorf("%q (%v)", b.String(), err)
	}
}
