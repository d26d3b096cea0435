// Package published has the messages and fields of the last release. During an upgrade, processes of both versions
// exchange messages for hours, so no process may depend on newer fields of its peer. The package strips a message to
// the fields of the last release and does not change any other field.
package published

import (
	_ "embed" // the list is part of the program
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/messages"
)

//go:embed baseline.txt
var baseline string

// Version holds the messages and fields that one version of the program knows.
type Version struct {
	known map[string]bool
	// new maps each type of message to whether the type, or a type of its fields, has something unknown.
	new map[protoreflect.FullName]bool
}

// Last returns the last release.
func Last() *Version { return Parse(baseline) }

// Parse reads a baseline.
func Parse(text string) *Version {
	v := &Version{known: map[string]bool{}, new: map[protoreflect.FullName]bool{}}
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			v.known[name] = true
		}
	}
	return v
}

// Knows reports whether the version knows this type of message, and all its enum values in known fields. A process of
// that version would refuse an unknown enum value.
func (v *Version) Knows(m messages.Message) bool { return v.knows(m.ProtoReflect()) }

func (v *Version) knows(m protoreflect.Message) bool {
	if !v.lacks(m.Descriptor()) {
		return true
	}
	if !v.known[string(m.Descriptor().FullName())] {
		return false
	}
	ok := true
	m.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case !v.known[string(f.FullName())]:
		case f.Kind() == protoreflect.EnumKind && !f.IsList():
			ok = v.hasValue(f.Enum(), value.Enum())
		case f.Message() != nil:
			each(f, value, func(part protoreflect.Message) { ok = ok && v.knows(part) })
		}
		return ok
	})
	return ok
}

// hasValue reports whether the version knows a value of an enum. The baseline lists a value below its enum.
func (v *Version) hasValue(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) bool {
	value := e.Values().ByNumber(n)
	return value == nil || v.known[string(e.FullName())+"."+string(value.Name())]
}

// Strip removes all unknown fields, and reports whether there were any.
func (v *Version) Strip(m messages.Message) bool { return v.strip(m.ProtoReflect()) }

func (v *Version) strip(m protoreflect.Message) bool {
	if !v.lacks(m.Descriptor()) {
		return false
	}
	stripped := false
	m.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if !v.known[string(f.FullName())] {
			m.Clear(f)
			stripped = true
		} else if f.Message() != nil {
			each(f, value, func(part protoreflect.Message) { stripped = v.strip(part) || stripped })
		}
		return true
	})
	return stripped
}

// each calls do for every message in a field.
func each(f protoreflect.FieldDescriptor, value protoreflect.Value, do func(protoreflect.Message)) {
	if !f.IsList() {
		do(value.Message())
		return
	}
	for i := range value.List().Len() {
		do(value.List().Get(i).Message())
	}
}

// lacks reports whether the version does not know a part of this type of message. Most types are fully known, so their
// messages are not searched.
func (v *Version) lacks(d protoreflect.MessageDescriptor) bool {
	if news, ok := v.new[d.FullName()]; ok {
		return news
	}
	v.new[d.FullName()] = false // ends the recursion for a type that contains itself
	news := !v.known[string(d.FullName())]
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		news = news || !v.known[string(f.FullName())]
		if e := f.Enum(); e != nil {
			for j := range e.Values().Len() {
				news = news || !v.hasValue(e, e.Values().Get(j).Number())
			}
		}
		news = f.Message() != nil && v.lacks(f.Message()) || news
	}
	v.new[d.FullName()] = news
	return news
}
