package jobfile

import (
	"regexp"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns how a time of day is written: when a job begins, and when a machine closes. There are few ways, and
// each means one moment; what at(1) and Slurm read besides (noon, teatime, 8PM, now+1hour) is refused with these.

// dates are the moments that name a day. Without a zone they are of the user's own.
var dates = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04"}

// hour is HH:MM alone.
var hour = regexp.MustCompile(`^([0-9]|[01][0-9]|2[0-3]):[0-5][0-9]$`)

const momentHint = "write 2026-11-24T08:00, 08:00 for its next occurrence, now+2h, or 2026-11-24T08:00:00Z"

// ParseMoment reads a time of day, as Unix time in milliseconds; now is 0. What is past stays so: it is for the
// scheduler to say what follows.
func ParseMoment(s string) (int64, error) { return parseMoment(s, time.Now()) }

func parseMoment(s string, now time.Time) (int64, error) {
	if s == "now" {
		return 0, nil
	}
	if span, ok := strings.CutPrefix(s, "now+"); ok {
		ms, err := ParseDuration(span)
		if err != nil {
			return 0, err
		}
		return now.Truncate(time.Second).UnixMilli() + ms, nil
	}
	if hour.MatchString(s) {
		return next(s, now).UnixMilli(), nil
	}
	for _, layout := range dates {
		if at, err := time.ParseInLocation(layout, s, now.Location()); err == nil && at.UnixMilli() > 0 &&
			at.UnixMilli() <= messages.MaxTimeUnixMs {
			return at.UnixMilli(), nil
		}
	}
	return 0, say(momentHint, "%s is not a time of day", quote(s))
}

// next is the first moment from now on at which clocks show the hour: tomorrow, where it is over today.
func next(text string, now time.Time) time.Time {
	at, err := time.Parse("15:4", text)
	if err != nil {
		panic("jobfile: an hour that is none: " + text)
	}
	year, month, day := now.Date()
	today := time.Date(year, month, day, at.Hour(), at.Minute(), 0, 0, now.Location())
	if today.Before(now) {
		return time.Date(year, month, day+1, at.Hour(), at.Minute(), 0, 0, now.Location())
	}
	return today
}

// FormatMoment is a moment, the same in every zone, as ParseMoment reads it.
func FormatMoment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
