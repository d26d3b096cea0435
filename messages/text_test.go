package messages

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// steering has characters with an effect other than being visible: C0, C1, DEL, bidirectional, separators and hidden
// characters.
const steering = "\x00\x07\b\n\t\r\x1b\x7f\u0080\u0085\u009b\u00ad\u200b" +
	"\u200e\u202e\u2028\u2029\u2066\u2069\ufeff\U000e0041"

// TestWrittenOut checks that invisible characters are escaped as in JSON, and that other text does not change.
func TestWrittenOut(t *testing.T) {
	for _, r := range steering {
		s := "a" + string(r) + "b"
		got, lines := OneLine(s), Lines(s)
		if strings.ContainsFunc(got, Steers) || (lines == s) != (r == '\n' || r == '\t') {
			t.Errorf("%q is written as %q, and with its lines as %q", s, got, lines)
		}
		var back string
		if err := json.Unmarshal([]byte(`"`+got+`"`), &back); err != nil || back != s {
			t.Errorf("%q is written as %s, which is %q: %v", s, got, back, err)
		}
	}
	for _, s := range []string{"", "train --lr=1e-3", "résumé größe 数据 عربي \\n", "🙂"} {
		if OneLine(s) != s || Lines(s) != s {
			t.Errorf("%q is written as %q", s, OneLine(s))
		}
	}
	if got := OneLine("a\x9bb"); got != `a\ufffdb` {
		t.Errorf("a byte that is no character is written as %q", got)
	}
}

// FuzzWrittenOut checks that no invisible character passes in any text.
func FuzzWrittenOut(f *testing.F) {
	f.Add(steering)
	f.Add("a\x9b\xff\xc2")
	f.Fuzz(func(t *testing.T, s string) {
		if got := OneLine(s); strings.ContainsFunc(got, Steers) || !utf8.ValidString(got) {
			t.Errorf("%q is written as %q", s, got)
		}
		got := Lines(s)
		if strings.ContainsFunc(got, func(r rune) bool { return Steers(r) && r != '\n' && r != '\t' }) ||
			strings.Count(got, "\n") != strings.Count(s, "\n") {
			t.Errorf("%q is written as %q", s, got)
		}
	})
}

// TestNewTextsAreVisible checks that a new job has invisible characters only in its command, its arguments and the
// values of its environment. A stored job of an older version may have them elsewhere.
func TestNewTextsAreVisible(t *testing.T) {
	texts := 0
	var walk func(m protoreflect.Message, whole *JobSpec)
	try := func(f protoreflect.FieldDescriptor, whole *JobSpec, set func(string)) {
		for _, r := range steering {
			set("a" + string(r))
			err := readable(whole.ProtoReflect())
			if allowed := free[f.FullName()]; (err == nil) != allowed {
				t.Errorf("%s with %q: %v", f.FullName(), r, err)
			}
			if err == nil {
				continue
			}
			if said := err.Error(); strings.ContainsFunc(said, Steers) || !strings.Contains(said, string(f.Name())) {
				t.Errorf("%s is refused as %q", f.FullName(), err)
			}
		}
		set("")
		texts++
	}
	walk = func(m protoreflect.Message, whole *JobSpec) {
		for i := range m.Descriptor().Fields().Len() {
			switch f := m.Descriptor().Fields().Get(i); {
			case f.Kind() == protoreflect.StringKind && f.IsList():
				list := m.Mutable(f).List()
				list.Append(protoreflect.ValueOfString(""))
				try(f, whole, func(s string) { list.Set(0, protoreflect.ValueOfString(s)) })
			case f.Kind() == protoreflect.StringKind:
				try(f, whole, func(s string) { m.Set(f, protoreflect.ValueOfString(s)) })
			case f.Message() != nil && f.IsList():
				list := m.Mutable(f).List()
				list.Append(list.NewElement())
				walk(list.Get(0).Message(), whole)
			case f.Message() != nil:
				walk(m.Mutable(f).Message(), whole)
			}
		}
	}
	whole := &JobSpec{}
	walk(whole.ProtoReflect(), whole)
	if texts < 20 {
		t.Errorf("%d texts were tried", texts)
	}
	s := goodSpec()
	s.Labels = []*Label{{Key: "a", Value: "b\u202ec"}}
	if err := s.Validate(); err != nil {
		t.Errorf("a job of an earlier version is refused: %v", err)
	}
	err := s.ValidateNew()
	if err == nil || !strings.Contains(err.Error(), `labels[0].value: contains the invisible character \u202e`) {
		t.Errorf("a new one: %v", err)
	}
}

// TestReasonsAreVisible checks that the reason of a request is one line of visible characters.
func TestReasonsAreVisible(t *testing.T) {
	who := &Principal{Name: "ann"}
	for _, r := range steering {
		why := "a" + string(r)
		for _, q := range []interface{ Validate() error }{
			&Cancel{Principal: who, Job: "j", Reason: why}, &Hold{Principal: who, Job: "j", Reason: why},
			&Requeue{Principal: who, Job: "j", Reason: why}, &Update{Principal: who, Job: "j", SetPriority: true, Reason: why},
			&ChangeNode{Principal: who, Node: "n", Verb: NodeVerb_NODE_VERB_NOTE, Reason: why},
		} {
			if err := q.Validate(); err == nil {
				t.Errorf("%T with %q is taken", q, r)
			}
		}
	}
}
