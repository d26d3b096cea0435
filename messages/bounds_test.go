package messages

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/bounds.txt")

// bounds is the file with the accepted values of each field, one line per field. A field of a nested message has one
// line, and another line if a message has a different rule for it. After a change of a rule, run the test with
// -rewrite. The diff of the file then shows the affected messages.
const bounds = "testdata/bounds.txt"

// TestBounds compares the accepted values of each field with the file. It tries missing, empty and repeated nested
// messages, the lowest and highest number, the longest text, and invalid names.
func TestBounds(t *testing.T) {
	var lines []string
	known := map[protoreflect.FullName]string{}
	for _, m := range goodMessages() {
		d := prober{root: proto.Clone(m).(validator)}
		name := string(m.ProtoReflect().Descriptor().Name())
		d.said = func(path string, f protoreflect.FieldDescriptor, what string) {
			if was, told := known[f.FullName()]; !told {
				known[f.FullName()] = what
			} else if was == what {
				return
			}
			if what == "" {
				what = " anything"
			}
			lines = append(lines, name+path+":"+what)
		}
		d.fields("", d.root.ProtoReflect())
	}
	if *rewrite {
		if err := os.WriteFile(bounds, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(bounds)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := range max(len(lines), len(want)) {
		if lineOf(lines, i) != lineOf(want, i) {
			t.Fatalf("line %d of %s is\n%s\nand the messages let through\n%s\n"+
				"(go test ./messages -run TestBounds -rewrite writes the file)",
				i+1, bounds, lineOf(want, i), lineOf(lines, i))
		}
	}
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// prober changes one field of a message at a time.
type prober struct {
	root validator
	said func(path string, f protoreflect.FieldDescriptor, what string)
}

// verdict returns the refused field, relative to a path. It returns "" if the message is valid.
func (d *prober) verdict(path string) string {
	err := d.root.Validate()
	var f *FieldError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &f):
		return err.Error()
	}
	own := path[1:]
	if rest, below := strings.CutPrefix(f.Field, own); below {
		return "it" + rest
	}
	return strings.TrimPrefix(f.Field, own[:strings.LastIndex(own, ".")+1])
}

// with returns the verdict for another value of a field.
func (d *prober) with(
	path string, m protoreflect.Message, f protoreflect.FieldDescriptor, v protoreflect.Value,
) string {
	if m.Has(f) {
		was := kept(m, f)
		defer func() { m.Set(f, was) }()
	} else {
		defer m.Clear(f)
	}
	m.Set(f, v)
	return d.verdict(path)
}

// kept returns a copy of the value of a field. Lists must be copied, because they are views of the field.
func kept(m protoreflect.Message, f protoreflect.FieldDescriptor) protoreflect.Value {
	if !f.IsList() {
		return m.Get(f)
	}
	all, view := m.NewField(f), m.Get(f).List()
	for i := range view.Len() {
		all.List().Append(view.Get(i))
	}
	return all
}

// fields probes the fields of a message and of its nested messages.
func (d *prober) fields(path string, m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		to := path + "." + string(f.Name())
		switch {
		case f.IsList():
			d.list(to, m, f)
		case f.Message() != nil:
			d.part(to, m, f)
		default:
			d.said(to, f, d.scalar(to, m, f))
		}
	}
}

// part probes a missing and an empty nested message.
func (d *prober) part(path string, m protoreflect.Message, f protoreflect.FieldDescriptor) {
	had, was := m.Has(f), m.Get(f)
	empty := d.with(path, m, f, m.NewField(f))
	m.Clear(f)
	d.said(path, f, refusals("none", d.verdict(path), "empty", empty))
	if had {
		m.Set(f, was)
		d.fields(path, was.Message())
	}
}

// list probes an empty list, one entry, a repeated entry, and each change of the entry.
func (d *prober) list(path string, m protoreflect.Message, f protoreflect.FieldDescriptor) {
	had, was := m.Has(f), kept(m, f)
	entry := protoreflect.ValueOfString("a")
	switch {
	case had:
		entry = was.List().Get(0)
	case f.Message() != nil:
		entry = m.NewField(f).List().NewElement()
	case f.Kind() != protoreflect.StringKind:
		entry = scalar(f)
	}
	of := func(all ...protoreflect.Value) string {
		list := m.NewField(f)
		for _, one := range all {
			list.List().Append(one)
		}
		return d.with(path, m, f, list)
	}
	what := refusals("none", of(), "one", of(entry), "the same twice", of(entry, entry))
	if f.Kind() == protoreflect.StringKind {
		what += spelled(func(s string) string { return of(protoreflect.ValueOfString(s)) })
	}
	d.said(path, f, what)
	if had && f.Message() != nil {
		d.fields(path+"[0]", entry.Message())
	}
}

// refusals lists the cases in which a field is refused.
func refusals(pairs ...string) (what string) {
	for i := 0; i < len(pairs); i += 2 {
		switch field := pairs[i+1]; field {
		case "":
		case "it":
			what += " not " + pairs[i] + ";"
		default:
			what += " " + pairs[i] + " refuses " + field + ";"
		}
	}
	return what
}

// scalar probes the values of a field without nested messages.
func (d *prober) scalar(path string, m protoreflect.Message, f protoreflect.FieldDescriptor) string {
	with := func(v protoreflect.Value) string { return d.with(path, m, f, v) }
	number := func(now, least, most int64, of func(int64) protoreflect.Value) string {
		return numbers(now, least, most, func(n int64) bool { return with(of(n)) == "" })
	}
	switch now := m.Get(f); f.Kind() {
	case protoreflect.StringKind:
		return refusals("none", with(protoreflect.ValueOfString(""))) +
			spelled(func(s string) string { return with(protoreflect.ValueOfString(s)) })
	case protoreflect.BytesKind:
		return refusals("none", with(protoreflect.ValueOfBytes(nil)))
	case protoreflect.EnumKind:
		return refusals("0", with(protoreflect.ValueOfEnum(0)), "99", with(protoreflect.ValueOfEnum(99)))
	case protoreflect.Int32Kind:
		of := func(n int64) protoreflect.Value { return protoreflect.ValueOfInt32(int32(n)) }
		return number(now.Int(), math.MinInt32, math.MaxInt32, of)
	case protoreflect.Int64Kind:
		return number(now.Int(), -math.MaxInt64, math.MaxInt64, protoreflect.ValueOfInt64)
	case protoreflect.Uint32Kind:
		of := func(n int64) protoreflect.Value { return protoreflect.ValueOfUint32(uint32(n)) }
		return number(int64(now.Uint()), 0, math.MaxUint32, of)
	case protoreflect.Uint64Kind:
		of := func(n int64) protoreflect.Value { return protoreflect.ValueOfUint64(uint64(n)) }
		return number(int64(now.Uint()), 0, math.MaxInt64, of)
	}
	return ""
}

// spelled probes invalid texts, and finds the longest valid text.
func spelled(with func(string) string) string {
	what := refusals("text that steers", with("a\x1b"), "a zero", with("a\x00"), "a space", with("a b"),
		"a slash", with("a/b"), "a capital", with("A"))
	const most = 1 << 19
	passes := func(n int64) bool { return with(strings.Repeat("a", int(n))) == "" }
	for n := int64(1); n < most && passes(n); n *= 2 {
		if !passes(2 * n) {
			what += fmt.Sprintf(" up to %d bytes;", last(n, 2*n, passes))
		}
	}
	return what
}

// numbers finds the range of valid numbers around a valid value.
func numbers(now, least, most int64, passes func(int64) bool) string {
	if !passes(now) {
		return " nothing that is tried;"
	}
	low := -last(-now, -least, func(n int64) bool { return passes(-n) })
	high := last(now, most, passes)
	if low == least && high == most {
		return ""
	}
	return fmt.Sprintf(" %d to %d;", low, high)
}

// last returns the highest valid number. It assumes that validity is lost at most once above good.
func last(good, most int64, passes func(int64) bool) int64 {
	if passes(most) {
		return most
	}
	near, far := uint64(0), uint64(most)-uint64(good)
	for far-near > 1 {
		if mid := near + (far-near)/2; passes(good + int64(mid)) {
			near = mid
		} else {
			far = mid
		}
	}
	return good + int64(near)
}
