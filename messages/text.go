package messages

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file decides which characters a text may contain, and escapes all others. All logs, and all commands that write
// to a terminal, use these functions.

// Steers reports whether a character has an effect other than being visible. It may end a line, move the cursor, change
// the direction of text, or hide text. These are control characters (C0 and C1), line and paragraph separators, and
// Unicode format characters.
func Steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// OneLine escapes all such characters as JSON does (\n, \u001b), so that the text fits on one line.
func OneLine(s string) string { return writtenOut(s, "") }

// Lines escapes all such characters except line feeds and tabs.
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
			hexOf(&b, 0xd800+(r-0x10000)>>10) // JSON encodes these as a surrogate pair
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

// free lists the fields that may contain any text. Processes get such text unchanged, and commands show it quoted.
var free = map[protoreflect.FullName]bool{
	"synapse.v1.JobSpec.command": true, "synapse.v1.EnvVar.value": true, "synapse.v1.Script.args": true,
	"synapse.v1.Secret.value": true,
}

// readable refuses invisible characters in all texts of a message, except for the fields in free.
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

// oneLine refuses text with invisible characters or line breaks.
func oneLine(field, s string) error {
	for _, r := range s {
		if Steers(r) {
			return refuse(field, "contains the invisible character "+OneLine(string(r)),
				"remove it: text must be one line of visible characters")
		}
	}
	return nil
}

// reason checks the reason in a request.
func reason(s string) error {
	return first(text("reason", s, maxTextBytes), oneLine("reason", s))
}
