package messages

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns which characters text may contain, and how the others are written where people read it. Every log, and
// every command that writes to a terminal, goes by it.

// Steers reports whether a character can do something else than be seen: end a line, move a cursor, change the
// direction of what follows, or hide. Those are the control characters, C1 among them, line and paragraph separators,
// and what Unicode calls format characters.
func Steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// OneLine is text on one line, with the characters that steer written out as in JSON: \n, \u001b.
func OneLine(s string) string { return writtenOut(s, "") }

// Lines is text that may have lines and tabs of its own, and otherwise the same.
func Lines(s string) string { return writtenOut(s, "\n\t") }

func writtenOut(s, keep string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return Steers(r) && !strings.ContainsRune(keep, r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Steers(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			hexOf(&b, 0xd800+(r-0x10000)>>10) // JSON has two halves for these
			hexOf(&b, 0xdc00+(r-0x10000)&0x3ff)
		default:
			hexOf(&b, r)
		}
	}
	return b.String()
}

func hexOf(b *strings.Builder, r rune) {
	const digits = "0123456789abcdef"
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte(digits[r>>shift&0xf])
	}
}

// free are the texts of a job that may contain anything: a process gets them as they are, and who reads them gets them
// quoted.
var free = map[protoreflect.FullName]bool{
	"synapse.v1.JobSpec.command": true, "synapse.v1.EnvVar.value": true, "synapse.v1.Script.args": true,
	"synapse.v1.Secret.value": true,
}

// readable refuses characters that steer in any text of a message but those that are free.
func readable(m protoreflect.Message) error {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !m.Has(f) || free[f.FullName()] || f.Kind() != protoreflect.StringKind && f.Message() == nil {
			continue
		}
		if !f.IsList() {
			if err := in(string(f.Name()), readableValue(f, m.Get(f))); err != nil {
				return err
			}
			continue
		}
		for list, j := m.Get(f).List(), 0; j < list.Len(); j++ {
			if err := in(string(f.Name()), at(j, readableValue(f, list.Get(j)))); err != nil {
				return err
			}
		}
	}
	return nil
}

func readableValue(f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	if f.Message() != nil {
		return readable(v.Message())
	}
	return oneLine("", v.String())
}

// oneLine refuses text that does not stand on one line as it is.
func oneLine(field, s string) error {
	for _, r := range s {
		if Steers(r) {
			return refuse(field, "contains the invisible character "+OneLine(string(r)),
				"remove it: text must be one line of visible characters")
		}
	}
	return nil
}

// reason checks why somebody asks for something.
func reason(s string) error {
	return first(text("reason", s, maxTextBytes), oneLine("reason", s))
}
