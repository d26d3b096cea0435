package messages

import (
	"cmp"
	"fmt"

	"github.com/yi-json/synapse/messages/plain"
)

// This file has the names of jobs. The field name has only lower-case letters, digits and dashes, because older
// versions drop messages with other names. The field title has the name as the user wrote it, if the two differ. Users
// see the title and can search for it.

// MaxTitleBytes limits the name that a user may give to a job.
const MaxTitleBytes = plain.MaxTitleBytes

// Called returns the name as the user wrote it.
func (x *JobSpec) Called() string { return cmp.Or(x.GetTitle(), x.GetName()) }

// Called returns the name as the user wrote it.
func (x *PastJob) Called() string { return cmp.Or(x.GetTitle(), x.GetName()) }

// Called returns the name as the user wrote it. An older leader sends only the derived name.
func (x *StartTask) Called() string { return cmp.Or(x.GetSpec().GetTitle(), x.GetJobName()) }

// Call sets the name of a job. It also sets an invalid name, which ValidateNew then refuses.
func (x *JobSpec) Call(given string) {
	x.Name, x.Title = plain.Call(given)
}

// NameOf returns the valid name that is derived from a user's name. It returns "" if no character is valid.
func NameOf(given string) string { return plain.NameOf(given) }

// Titled reports whether a user may give this name to a job.
func Titled(given string) bool { return plain.Titled(given) }

// validTitle refuses an invalid title, and a title that does not match the name.
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

// nameOrTitle checks a filter by name or title.
func nameOrTitle(field, s string) error {
	if s == "" || Titled(s) {
		return nil
	}
	return name(field, s)
}

// TitleHint describes the valid names of jobs.
const TitleHint = "use 1 to 128 letters, digits and any of . _ -, with at least one letter or digit"
