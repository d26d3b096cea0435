package jobfile

import (
	"strings"
	"testing"
	"time"
)

// This file tests how times of day are parsed.

func TestParseMoment(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		berlin = time.FixedZone("CET", 3600)
	}
	now := time.Date(2026, 11, 23, 9, 30, 15, 700_000_000, berlin)
	for text, want := range map[string]string{
		"2026-11-24T08:00:00Z":      "2026-11-24T08:00:00Z",
		"2026-11-24T08:00:00.25Z":   "2026-11-24T08:00:00.25Z",
		"2026-11-24T08:00Z":         "2026-11-24T08:00:00Z",
		"2026-11-24T08:00:00-05:00": "2026-11-24T13:00:00Z",
		"2026-11-24T08:00":          "2026-11-24T07:00:00Z",
		"2026-11-24T08:00:09":       "2026-11-24T07:00:09Z",
		"10:00":                     "2026-11-23T09:00:00Z",
		"9:30":                      "2026-11-24T08:30:00Z", // a minute that has just begun
		"08:00":                     "2026-11-24T07:00:00Z",
		"now+2h":                    "2026-11-23T10:30:15Z",
		"now+1-12":                  "2026-11-24T20:30:15Z",
		"2020-01-01T00:00":          "2019-12-31T23:00:00Z",
	} {
		got, err := parseMoment(text, now)
		if err != nil || FormatMoment(got) != want {
			t.Errorf("%s is %s, want %s (%v)", text, FormatMoment(got), want, err)
		}
		if again, err := parseMoment(FormatMoment(got), now); again != got || err != nil {
			t.Errorf("%s comes back as %d, and was %d (%v)", FormatMoment(got), again, got, err)
		}
	}
	if at, err := parseMoment("now", now); at != 0 || err != nil {
		t.Errorf("now is %d (%v)", at, err)
	}
}

func TestParseMomentRefuses(t *testing.T) {
	for text, hint := range map[string]string{
		"":                 momentHint,
		"tomorrow":         momentHint,
		"8PM":              momentHint,
		"24:00":            momentHint,
		"8":                momentHint,
		"2026-11-24":       momentHint,
		"2026-11-24 08:00": momentHint,
		"2026-13-01T08:00": momentHint,
		"1969-01-01T00:00": momentHint,
		"now+":             "write 90s",
		"now+1hour":        "write 90s",
		"now+60":           "write 60s, or 60m for minutes",
		"now-1h":           momentHint,
	} {
		_, err := parseMoment(text, time.Now())
		if p, is := err.(*Problem); !is || !strings.Contains(p.Hint, hint) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
