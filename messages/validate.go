package messages

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file has the error type and the checks that all messages share. Messages are validated once, on receipt, so no
// later code checks whether a field is set.
//
// All checks of a message run, and the error reports the first failure. Checks that pass are cheap, and only a failure
// builds an error text.

// FieldError is the error of an invalid message: the field, the reason and a suggestion.
type FieldError struct {
	Field string // the path of the field: spec.gang.replicas_min
	Text  string
	Hint  string // empty if there is nothing to add to Text
	more  []*FieldError
}

// All returns all failures of a message, the first one first.
func (e *FieldError) All() []*FieldError {
	all := []*FieldError{e}
	for _, other := range e.more {
		all = append(all, other.All()...)
	}
	return all
}

// Error returns field, reason and suggestion on one line.
func (e *FieldError) Error() string {
	s := e.Text
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func refuse(field, text, hint string) error { return &FieldError{Field: field, Text: text, Hint: hint} }

// in prefixes the path of an error with a field.
func in(field string, err error) error {
	if e, ok := err.(*FieldError); ok && field != "" {
		switch {
		case e.Field == "":
			e.Field = field
		case e.Field[0] == '[':
			e.Field = field + e.Field
		default:
			e.Field = field + "." + e.Field
		}
		for _, other := range e.more {
			_ = in(field, other)
		}
	}
	return err
}

// at prefixes the path of an error with an index in a list.
func at(i int, err error) error { return in("["+strconv.Itoa(i)+"]", err) }

// first returns the first error, or nil. It attaches the other errors for callers that report all of them.
func first(errs ...error) error {
	for i, err := range errs {
		if err == nil {
			continue
		}
		if e, ok := err.(*FieldError); ok {
			for _, other := range errs[i+1:] {
				if o, is := other.(*FieldError); is && o != nil {
					e.more = append(e.more, o)
				}
			}
		}
		return err
	}
	return nil
}

// part checks a required nested message. The constraint P is *M, so that each valid method need not check for nil.
func part[M any, P interface {
	*M
	valid() error
}](field string, p P) error {
	if p == nil {
		return refuse(field, "is missing", "")
	}
	return in(field, p.valid())
}

// maybe checks an optional nested message.
func maybe[M any, P interface {
	*M
	valid() error
}](field string, p P) error {
	if p == nil {
		return nil
	}
	return in(field, p.valid())
}

// parts checks a list of nested messages and its length.
func parts[M any, P interface {
	*M
	valid() error
}](field string, list []P, least, most int) error {
	if len(list) < least {
		return refuse(field, "is empty", "")
	}
	if len(list) > most {
		return refuse(field, fmt.Sprintf("has %d entries, more than %d", len(list), most), "")
	}
	for i, p := range list {
		if err := part("", p); err != nil {
			return in(field, at(i, err))
		}
	}
	return nil
}

// said refuses the zero value of an enum: the sender forgot the field, or used a value of a newer version.
func said[E ~int32](field string, e E) error {
	if e == 0 {
		return refuse(field, "must be specified", "")
	}
	return nil
}

func between(field string, n, least, most int64) error {
	switch {
	case n < least && least == 0:
		return refuse(field, fmt.Sprintf("is %d, and must not be negative", n), "")
	case n < least || n > most:
		return refuse(field, fmt.Sprintf("is %d, outside %d to %d", n, least, most), "")
	}
	return nil
}

func duration(field string, ms int64) error { return between(field, ms, 0, MaxDurationMs) }

// led refuses the epoch 0, because epochs start at 1.
func led(field string, epoch uint64) error {
	if epoch == 0 {
		return refuse(field, "must not be 0: epochs start at 1", "")
	}
	return nil
}

// name checks a name that a user chose.
func name(field, s string) error {
	if s == "" {
		return refuse(field, "is missing", "use lower-case letters, digits and dashes")
	}
	if len(s) > MaxNameBytes || !only(s, func(c byte) bool { return c == '-' || digit(c) || lower(c) }) {
		return refuse(field, fmt.Sprintf("%s is not a name", short(s)), "use 1 to 63 of a-z, 0-9 and '-'")
	}
	return nil
}

func nameOrNone(field, s string) error {
	if s == "" {
		return nil
	}
	return name(field, s)
}

// id checks an identifier. It may be part of a path, so it has no slash. The allowed characters cover host names, UUIDs
// and the IDs of Synapse.
func id(field, s string) error {
	if s == "" {
		return refuse(field, "is missing", "")
	}
	ok := len(s) <= MaxIDBytes && only(s, func(c byte) bool {
		return digit(c) || lower(c) || upper(c) || c == '-' || c == '_' || c == '.' || c == ':'
	})
	if !ok {
		return refuse(field, fmt.Sprintf("%s is not an id", short(s)), "use up to 128 letters, digits and any of -_.:")
	}
	return nil
}

func idOrNone(field, s string) error {
	if s == "" {
		return nil
	}
	return id(field, s)
}

// text checks a text for people. The text may be empty.
func text(field, s string, most int) error {
	if len(s) > most {
		return refuse(field, fmt.Sprintf("is %d bytes long, more than %d", len(s), most), "")
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unreadable) {
		return refuse(field, "contains unprintable characters", "")
	}
	return nil
}

func unreadable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// AsText makes a valid text of the output of a kernel, a tool or a file system. It replaces unprintable characters with
// question marks and cuts a long text. Every receiver would refuse a fact with an invalid text.
func AsText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unreadable(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > maxTextBytes {
		s = strings.ToValidUTF8(s[:maxTextBytes], "")
	}
	return s
}

// given checks a text that must not be empty.
func given(field, s string, most int) error {
	if s == "" {
		return refuse(field, "is missing", "")
	}
	return text(field, s, most)
}

// passed checks a text that is passed to a process. It refuses NUL, which would silently cut the text.
func passed(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return refuse(field, "contains a NUL byte", "")
	}
	return nil
}

// absolute checks a path inside a container or on a node.
func absolute(field, s string) error {
	switch {
	case len(s) > MaxPathBytes:
		return refuse(field, fmt.Sprintf("is %d bytes long, more than %d", len(s), MaxPathBytes), "")
	case !strings.HasPrefix(s, "/"):
		return refuse(field, fmt.Sprintf("%s is not an absolute path", short(s)), "start it with /")
	case path.Clean(s) != s:
		return refuse(field, fmt.Sprintf("%s is not a clean path", short(s)), "write "+short(path.Clean(s)))
	}
	return passed(field, s)
}

func only(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func upper(c byte) bool { return 'A' <= c && c <= 'Z' }

// short quotes a value for an error text, and cuts a long value.
func short(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "…"
	}
	return strconv.Quote(s)
}

// twice returns the index of the first repeated key. It compares short lists pairwise, because that is faster than a
// map.
func twice[T any, K comparable](list []T, key func(T) K) (int, bool) {
	if len(list) <= 16 {
		for i := range list {
			for j := range i {
				if key(list[i]) == key(list[j]) {
					return i, true
				}
			}
		}
		return 0, false
	}
	seen := make(map[K]struct{}, len(list))
	for i := range list {
		k := key(list[i])
		if _, again := seen[k]; again {
			return i, true
		}
		seen[k] = struct{}{}
	}
	return 0, false
}

// unique refuses a list with a repeated key.
func unique[T any, K comparable](field string, list []T, key func(T) K) error {
	if i, again := twice(list, key); again {
		return in(field, at(i, refuse("", fmt.Sprintf("%v is a duplicate", key(list[i])), "")))
	}
	return nil
}
