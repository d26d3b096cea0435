package messages

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file owns the door's tools: what a refusal looks like, and the checks
// that all conversations share. A message is checked before anything is done
// with it, so nobody behind the door asks again whether a field is there.
//
// All checks of a message run, and the first refusal stands: they are cheap
// when they pass, and only a refusal builds its words.

// FieldError refuses a message: which field, why, and the way out.
type FieldError struct {
	Field string // its path: spec.gang.replicas_min
	Text  string
	Hint  string // empty where it would only say the text again
	more  []*FieldError
}

// All are the refusals of one message: the first that was met, and those beside it.
func (e *FieldError) All() []*FieldError {
	all := []*FieldError{e}
	for _, other := range e.more {
		all = append(all, other.All()...)
	}
	return all
}

// Error is the whole as one line.
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

// in moves a refusal under the field it happened in.
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

// at moves a refusal under an element of a list.
func at(i int, err error) error { return in("["+strconv.Itoa(i)+"]", err) }

// first is the first refusal, if any. It has those behind it with it, for whoever reports all at once.
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

// part checks a part that must be there. P is *M; naming both spares each part
// its own check for nil.
func part[M any, P interface {
	*M
	valid() error
}](field string, p P) error {
	if p == nil {
		return refuse(field, "is missing", "")
	}
	return in(field, p.valid())
}

// maybe checks a part that may be left out.
func maybe[M any, P interface {
	*M
	valid() error
}](field string, p P) error {
	if p == nil {
		return nil
	}
	return in(field, p.valid())
}

// parts checks a list of parts and its length.
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

// said refuses the zero of an enum: it was forgotten, or is newer than we are.
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

// led refuses the epoch 0, in which nobody leads.
func led(field string, epoch uint64) error {
	if epoch == 0 {
		return refuse(field, "must not be 0: epochs start at 1", "")
	}
	return nil
}

// name checks what a user calls something.
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

// id checks what names a thing among machines. It may stand in a path, so it
// holds no slash; the list of letters is what host names, UUIDs and our own ids need.
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

// text checks a line that people read; it may be empty.
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

// AsText makes text of what was said elsewhere, by a kernel, a tool or the name of
// a file: what nobody can read becomes a question mark, and what is too long is
// cut. A fact with anything else in it is refused wherever it goes.
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

// given is text that must not be empty.
func given(field, s string, most int) error {
	if s == "" {
		return refuse(field, "is missing", "")
	}
	return text(field, s, most)
}

// passed checks what is handed to a process as it is: anything but a NUL, which
// would end it early without anybody noticing.
func passed(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return refuse(field, "contains a NUL byte", "")
	}
	return nil
}

// absolute checks a path inside a container or on a machine.
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

// short quotes what was said, cut where it is long: it goes into a log.
func short(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "…"
	}
	return strconv.Quote(s)
}

// twice finds the first key that comes up a second time. Most lists are a
// handful, where looking is cheaper than remembering.
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

// unique refuses a list that says one thing twice.
func unique[T any, K comparable](field string, list []T, key func(T) K) error {
	if i, again := twice(list, key); again {
		return in(field, at(i, refuse("", fmt.Sprintf("%v is a duplicate", key(list[i])), "")))
	}
	return nil
}
