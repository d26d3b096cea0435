package localtime

import (
	"testing"
	"time"
)

// berlin is one hour ahead of UTC in winter and two hours in summer. The tests do not need the time zones of the host.
var berlin = time.FixedZone("CET", 3600)

// at is Thursday, 26 November 2026, 17:00 UTC.
var at = time.Date(2026, 11, 26, 17, 0, 0, 0, time.UTC)

// TestOf converts each form of a time that schedulers and the package show write.
func TestOf(t *testing.T) {
	late := time.Date(2026, 11, 26, 22, 30, 0, 0, time.UTC)
	for _, of := range []struct {
		text, want string
		zone       *time.Location
		now        time.Time
	}{
		{"ends by 17:26Z (time limit)", "ends by 18:26 CET (time limit)", berlin, at},
		{"next at 17:26:09Z", "next at 18:26:09 CET", berlin, at},
		{"BeginTime: Sat 17:26Z", "BeginTime: Sat 18:26 CET", berlin, at},
		{"BeginTime: Sat 23:30Z", "BeginTime: Sun 00:30 CET", berlin, at},
		{"since Wed 23:30Z", "since Thu 00:30 CET", berlin, at},
		{"from 23:10Z on", "from Fri 00:10 CET on", berlin, at},
		{"from 23:10Z on", "from 00:10 CET on", berlin, late.Add(35 * time.Minute)},
		{"until 2026-12-31 23:30Z", "until 2027-01-01 00:30 CET", berlin, at},
		{"2026-11-26T17:26:00Z, 3m ago", "2026-11-26T18:26:00+01:00, 3m ago", berlin, at},
		{"2026-11-26T17:26:00.125Z", "2026-11-26T18:26:00.125+01:00", berlin, at},
		{"17:26Z or 18:00Z", "18:26 CET or 19:00 CET", berlin, at},
		{"17:26Z", "14:26 -03", time.FixedZone("-03", -3*3600), at},
		{"2026-11-26T17:26:00Z", "2026-11-26T22:56:00+05:30", time.FixedZone("IST", 5*3600+1800), at},
		{"17:26Z", "17:26 GMT", time.FixedZone("GMT", 0), at},
		{"17:26Z", "17:26Z", time.FixedZone("UTC", 0), at},
		{"17:26Z", "17:26Z", time.UTC, at},
		{"17:26Z", "17:26Z", nil, at},
		{"25:70Z and 2026-13-45T17:26Z", "25:70Z and 2026-13-45T17:26Z", berlin, at},
		{"model-17:26Zx, v17:26, Z", "model-17:26Zx, v17:26, Z", berlin, at},
		{"", "", berlin, at},
	} {
		if got := Of(of.text, of.zone, of.now.UnixMilli()); got != of.want {
			t.Errorf("%q in %v at %s: %q, want %q", of.text, of.zone, of.now, got, of.want)
		}
	}
}

// TestOfInSummer uses the offset of the time itself, not the offset of now.
func TestOfInSummer(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("the host has no time zones: ", err)
	}
	// The clocks in Berlin go back on Sunday, 25 October 2026, at 01:00 UTC.
	now := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC).UnixMilli()
	for text, want := range map[string]string{
		"13:00Z":               "15:00 CEST",
		"Sun 13:00Z":           "Sun 14:00 CET",
		"2026-10-25T13:00:00Z": "2026-10-25T14:00:00+01:00",
	} {
		if got := Of(text, zone, now); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestClock formats the time of a line that a command prints while it waits.
func TestClock(t *testing.T) {
	if got := Clock(at, berlin); got != "18:00:00 CET" {
		t.Errorf("Clock in Berlin: %q", got)
	}
	if got := Clock(at, nil); got != "17:00:00Z" {
		t.Errorf("Clock in UTC: %q", got)
	}
}
