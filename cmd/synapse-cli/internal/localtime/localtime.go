// Package localtime shows times in the time zone of the user. Schedulers and the package show write all times in UTC,
// marked by Z. This package converts the times in these texts, so only this package decides how a local time looks.
package localtime

import (
	"regexp"
	"strings"
	"sync"
	"time"
)

// times matches a UTC time in a text: 2026-11-26T17:26:00Z, 2026-11-26 17:26Z, Thu 17:26Z or 17:26:09Z. It is compiled
// at the first use, because most commands start without it.
var times = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:(\d{4}-\d\d-\d\d)([T ])|(Sun|Mon|Tue|Wed|Thu|Fri|Sat) )?` +
		`(\d\d:\d\d)(:\d\d(?:\.\d+)?)?Z\b`)
})

// Of converts the UTC times in a text to a time zone. nowMs is the time at which the text was written. A time with a T
// stays a time of RFC 3339 that commands accept, with the offset of the zone. The other times get the name of the zone.
// A nil zone means UTC.
func Of(text string, zone *time.Location, nowMs int64) string {
	if zone == nil || zone == time.UTC || !strings.Contains(text, "Z") {
		return text
	}
	var b strings.Builder
	rest := 0
	for _, at := range times().FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return text[at[2*i]:at[2*i+1]]
		}
		w := written{day: part(1), between: part(2), weekday: part(3), clock: part(4), seconds: part(5)}
		if local, ok := w.in(zone, nowMs); ok {
			b.WriteString(text[rest:at[0]] + local)
			rest = at[1]
		}
	}
	return b.String() + text[rest:]
}

// Clock formats the current time of day in a time zone, with seconds. A nil zone means UTC.
func Clock(now time.Time, zone *time.Location) string {
	return Of(now.UTC().Format("15:04:05Z"), zone, now.UnixMilli())
}

// written is a UTC time as a text has it.
type written struct{ day, between, weekday, clock, seconds string }

// in returns the time in a time zone. It reports false if the text stays: in a zone that is UTC, and for a text that
// is no time, such as 25:70Z.
func (w written) in(zone *time.Location, nowMs int64) (string, bool) {
	now := time.UnixMilli(nowMs).UTC()
	day := w.day
	if day == "" {
		day = w.date(now).Format(time.DateOnly)
	}
	utc, err := time.Parse("2006-01-02 15:04", day+" "+w.clock)
	if err != nil {
		return "", false
	}
	local := utc.In(zone)
	name, clock := local.Format("MST"), local.Format("15:04")+w.seconds
	switch {
	case name == "UTC":
		return "", false
	case w.between == "T":
		return local.Format("2006-01-02T") + clock + local.Format("Z07:00"), true
	case w.day != "":
		return local.Format("2006-01-02 ") + clock + " " + name, true
	case w.weekday != "" || local.YearDay() != now.In(zone).YearDay():
		return local.Format("Mon ") + clock + " " + name, true
	}
	return clock + " " + name, true
}

// date returns the day of a time without a date. Without a weekday, the scheduler means today. With a weekday, it means
// yesterday or one of the next days.
func (w written) date(now time.Time) time.Time {
	for days := -1; w.weekday != "" && days < 6; days++ {
		if at := now.AddDate(0, 0, days); at.Format("Mon") == w.weekday {
			return at
		}
	}
	return now
}
