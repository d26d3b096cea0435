package jobfile

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file parses times of day: the start of a job, and the closing time of a node. Each accepted notation
// names exactly one time. Other notations of at(1) and Slurm (noon, teatime, 8PM, now+1hour) are refused with
// a list of the accepted ones.

// dates lists the layouts that contain a date. A layout without a zone means the user's local time.
var dates = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04"}

// hour matches HH:MM.
var hour = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]|[01][0-9]|2[0-3]):[0-5][0-9]$`)
})

const momentHint = "write 2026-11-24T08:00, 08:00 for its next occurrence, now+2h, or 2026-11-24T08:00:00Z"

// ParseMoment parses a time as Unix time in milliseconds. "now" is 0. A time in the past is accepted: the
// scheduler decides what it means.
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
	if hour().MatchString(s) {
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

// next returns the next time at which clocks show this hour: tomorrow, if the hour has passed today.
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

// FormatMoment formats a time in UTC for ParseMoment.
func FormatMoment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
