// Package published owns what the version before this one speaks: what stood in
// the baseline when it was published. An upgrade takes a cluster through hours in
// which both versions talk, so what is new must never be needed by the other side.
// It strips a message to what that version knows, and must never change the rest.
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
	// new is, by message type, whether something in it or below is not known.
	new map[protoreflect.FullName]bool
}

// Last is the version that was published last.
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

// Knows reports whether the version has this message, and every value of an enum
// that it holds in fields that the version has. It would refuse another one.
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

// hasValue reports whether the version has a value of an enum. Like the baseline
// it names a value by its enum.
func (v *Version) hasValue(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) bool {
	value := e.Values().ByNumber(n)
	return value == nil || v.known[string(e.FullName())+"."+string(value.Name())]
}

// Strip removes what the version does not know, and reports whether there was any.
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

// each calls do for every message that a field holds.
func each(f protoreflect.FieldDescriptor, value protoreflect.Value, do func(protoreflect.Message)) {
	if !f.IsList() {
		do(value.Message())
		return
	}
	for i := range value.List().Len() {
		do(value.List().Get(i).Message())
	}
}

// lacks reports whether a message type, or one of its parts, has anything that the
// version does not know. Most have not, and are not looked through.
func (v *Version) lacks(d protoreflect.MessageDescriptor) bool {
	if news, ok := v.new[d.FullName()]; ok {
		return news
	}
	v.new[d.FullName()] = false // a type that holds itself
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
