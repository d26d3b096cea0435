package messages

import (
	"cmp"
	"fmt"
	"strings"
)

// This file owns what a job is called. Its name on the wire is of lower-case letters, digits and dashes, because older
// versions drop messages with other ones. The name as it was given stands beside it, if it is another, and is what
// people see and look for.

// MaxTitleBytes bounds a job's name as it was given.
const MaxTitleBytes = 128

// Called is the name of a job as it was given.
func (x *JobSpec) Called() string { return cmp.Or(x.GetTitle(), x.GetName()) }

// Called is the name of a job as it was given.
func (x *PastJob) Called() string { return cmp.Or(x.GetTitle(), x.GetName()) }

// Called is the name of a job as it was given. An earlier leader sends none, and the name alone.
func (x *StartTask) Called() string { return cmp.Or(x.GetSpec().GetTitle(), x.GetJobName()) }

// Call names a job. A text that could not be a name is refused by ValidateNew.
func (x *JobSpec) Call(given string) {
	x.Name, x.Title = given, ""
	if name := NameOf(given); name != given && Titled(given) {
		x.Name, x.Title = name, given
	}
}

// NameOf is the name that is derived from one as it was given: itself where it is one, empty where none is near.
func NameOf(given string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(given) {
		switch {
		case b.Len() >= MaxNameBytes:
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			b.WriteRune(c)
		case c == '_' || c == ' ' || c == '.' || c == '/' || c == ':':
			b.WriteByte('-')
		}
	}
	name := b.String()
	if name == given {
		return given
	}
	return strings.Trim(name, "-")
}

// Titled reports whether a job may be called so.
func Titled(given string) bool {
	return given != "" && len(given) <= MaxTitleBytes && NameOf(given) != "" && only(given, func(c byte) bool {
		return c == '-' || c == '_' || c == '.' || digit(c) || lower(c) || upper(c)
	})
}

// validTitle refuses a given name that no job may have, or that is not the one of its name.
func (x *JobSpec) validTitle() error {
	given := x.GetTitle()
	switch {
	case given == "":
		return nil
	case !Titled(given):
		return refuse("title", fmt.Sprintf("%s is not a name", short(given)), TitleHint)
	case NameOf(given) != x.GetName():
		return refuse("title", fmt.Sprintf("%s does not match the given name %s", short(given), short(x.GetName())),
			fmt.Sprintf("send the name %s with it", NameOf(given)))
	}
	return nil
}

// nameOrTitle takes a filter by either name of jobs.
func nameOrTitle(field, s string) error {
	if s == "" || Titled(s) {
		return nil
	}
	return name(field, s)
}

// TitleHint says what a job may be called.
const TitleHint = "use 1 to 128 letters, digits and any of . _ -, with at least one letter or digit"
