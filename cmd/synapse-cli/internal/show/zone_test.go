package show

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests the time zone of the output.

// printers lists the outputs that have times.
func printers() map[string]func(io.Writer, Style) error {
	waits := &messages.JobStatus{
		Record: &messages.JobRecord{Id: "jwait", Spec: &messages.JobSpec{BeginUnixMs: now + 3_600_000}, SubmittedUnixMs: now},
		Phase:  "queued", Reason: "BeginTime: Sat 09:00Z",
		Prospect: &messages.Prospect{Basis: messages.Basis_BASIS_LEARNED, AtUnixMs: now + 3_600_000},
	}
	ended := &messages.AttemptRecord{Run: 1, StartedUnixMs: now, End: &messages.End{AtUnixMs: now,
		Detail: "no progress since 07:30Z"}}
	drained := nodes()[1]
	drained.Record.JoinedUnixMs = now
	drained.Record.Closing, drained.Record.ClosesUnixMs = &messages.Deed{}, now+60_000
	list := []*messages.JobStatus{waits}
	return map[string]func(io.Writer, Style) error{
		"get jobs":         func(w io.Writer, s Style) error { return Jobs(w, s, list) },
		"get jobs --start": func(w io.Writer, s Style) error { return Starts(w, s, list) },
		"get nodes":        func(w io.Writer, s Style) error { return Nodes(w, s, []*messages.NodeStatus{drained}) },
		"events":           func(w io.Writer, s Style) error { return Event(w, s, events()[0]) },
		"token list": func(w io.Writer, s Style) error {
			return Passes(w, s, []*api.Pass{{Id: "p", MadeUnixMs: now, UntilUnixMs: now}})
		},
		"history": func(w io.Writer, s Style) error {
			if s.Format == "" {
				s.Format = "wide"
			}
			h := NewHistory(w, s)
			return errors.Join(h.Add(pastJobs()), h.End())
		},
		"describe job": func(w io.Writer, s Style) error {
			return DescribeJob(w, s, running(), []*messages.AttemptRecord{ended})
		},
		"describe a waiting job": func(w io.Writer, s Style) error { return DescribeJob(w, s, waits, nil) },
		"describe node":          func(w io.Writer, s Style) error { return DescribeNode(w, s, drained) },
		"top":                    func(w io.Writer, s Style) error { return Top(w, s, "head", nil, list, 0) },
		"explain": func(w io.Writer, s Style) error {
			return Explanation(w, s, &messages.ExplainJobReply{Explanation: &messages.Explanation{AtUnixMs: now,
				Job: &messages.JobName{Id: "jwait", ShortId: "jwait"}, Phase: "queued", Start: waits.GetProspect(),
			}}, &messages.JobName{Id: "jwait"}, "queued")
		},
		"explain of an older scheduler": func(w io.Writer, s Style) error {
			return Explanation(w, s, &messages.ExplainJobReply{Text: "begins at 2027-01-16T08:00:00Z"},
				&messages.JobName{Id: "jwait"}, "queued")
		},
	}
}

// TestLocalTimes checks that tables and texts have times in the zone of the user, and that --parsable has UTC.
func TestLocalTimes(t *testing.T) {
	utc, local := regexp.MustCompile(`\d\d:\d\d(:\d\d)?Z`), regexp.MustCompile(`\d\d:\d\d( CET|:\d\d\+01:00)`)
	for name, print := range printers() { //order: each is independent
		var in, parsable bytes.Buffer
		s := Style{NowMs: now, Zone: time.FixedZone("CET", 3600)}
		if err := print(&in, s); err != nil {
			t.Fatal(err)
		}
		if text := in.String(); utc.MatchString(text) || !local.MatchString(text) {
			t.Errorf("%s is not in the zone of the user:\n%s", name, text)
		}
		s.Parsable = true
		if err := print(&parsable, s); err != nil {
			t.Fatal(err)
		}
		if text := parsable.String(); name != "top" && strings.Contains(text, "|") && local.MatchString(text) {
			t.Errorf("%s --parsable is not in UTC:\n%s", name, text)
		}
	}
}

// TestObjectsAreInUTC checks that the zone of the user does not change what programs read.
func TestObjectsAreInUTC(t *testing.T) {
	for name, print := range printers() { //order: each is independent
		formats := []string{"json", "yaml"}
		switch {
		case strings.HasPrefix(name, "describe") || name == "top":
			continue // without objects
		case name == "history":
			formats = []string{"json", "csv"}
		case name == "get jobs":
			formats = append(formats, "jsonpath={.items[*].status}", "custom-columns=AT:.status.submittedAt")
		}
		for _, format := range formats {
			var here, there bytes.Buffer
			err := errors.Join(print(&here, Style{NowMs: now, Format: format}),
				print(&there, Style{NowMs: now, Format: format, Zone: time.FixedZone("CET", 3600)}))
			if err != nil {
				t.Fatal(err)
			}
			if here.String() != there.String() || !strings.Contains(here.String(), "Z") {
				t.Errorf("%s -o %s:\n%s\nin another zone:\n%s", name, format, here.String(), there.String())
			}
		}
	}
}

// TestCommandsKeepTheirTimes checks that a time in the command of a user stays, because it is an argument.
func TestCommandsKeepTheirTimes(t *testing.T) {
	j := running()
	j.Record.Spec.Command = []string{"./train", "--since", "2026-11-01T08:00:00Z"}
	var b bytes.Buffer
	if err := DescribeJob(&b, Style{NowMs: now, Zone: time.FixedZone("CET", 3600)}, j, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "./train --since 2026-11-01T08:00:00Z") {
		t.Error(b.String())
	}
}
