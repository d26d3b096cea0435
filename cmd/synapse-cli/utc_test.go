package main

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests --utc and the time zone of the user.

// cliIn runs the program for a user in Berlin in winter.
func cliIn(zone *time.Location, address string, args ...string) result {
	var out, errs lines
	a := newApp(strings.NewReader(""), &out, &errs, func(name string) (string, bool) {
		return address, name == "SYNAPSE_SERVER"
	})
	a.zone = zone
	code := a.execute(append([]string{"synapse-cli"}, args...))
	return result{code, out.String(), errs.String()}
}

// TestUTC checks that times are in the zone of the user, in UTC with --utc, and always in UTC for programs.
func TestUTC(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	f := startFake(t)
	at := time.Date(2026, 11, 26, 17, 0, 0, 0, time.UTC).UnixMilli()
	waits := job("j1", "queued", messages.JobState_JOB_STATE_QUEUED)
	waits.Record.SubmittedUnixMs, waits.Reason = at, "BeginTime: 2026-12-24 17:26Z"
	f.jobs, f.nodes = []*messages.JobStatus{waits}, []*messages.NodeStatus{machine("n8")}
	for _, of := range []struct{ command, local, utc string }{
		{"get jobs", "BeginTime: 2026-12-24 18:26 CET\n", "BeginTime: 2026-12-24 17:26Z\n"},
		{"describe job j1", "2026-11-26T18:00:00+01:00, ", "2026-11-26T17:00:00Z, "},
		{"drain n8 --reason fan --at 2099-01-01T08:00:00Z", "at 2099-01-01T09:00:00+01:00\n", "at 2099-01-01T08:00:00Z\n"},
		{"get jobs -o yaml", "2026-12-24 17:26Z'", "2026-12-24 17:26Z'"},
		{"get jobs -o json", `"submittedAt": "2026-11-26T17:00:00Z"`, `"submittedAt": "2026-11-26T17:00:00Z"`},
		{"get jobs --parsable", "BeginTime: 2026-12-24 17:26Z\n", "BeginTime: 2026-12-24 17:26Z\n"},
	} {
		args := strings.Fields(of.command)
		cliIn(berlin, f.address, args...).wants(t, 0, of.local, "")
		cliIn(berlin, f.address, append(args, "--utc")...).wants(t, 0, of.utc, "")
		cliIn(time.UTC, f.address, args...).wants(t, 0, of.utc, "")
	}
}

// TestLogTimesAreLocal checks the times of lines, and that lines without a time are aligned with the others.
func TestLogTimesAreLocal(t *testing.T) {
	at := time.Date(2026, 11, 26, 17, 0, 0, 0, time.UTC).UnixMilli()
	here := timing{print: true, zone: time.FixedZone("CET", 3600)}
	known, _ := here.stamped(at)
	unknown, _ := here.stamped(0)
	if known != "2026-11-26T18:00:00+01:00 " || strings.TrimSpace(unknown) != "-" || len(unknown) != len(known) {
		t.Errorf("%q and %q", known, unknown)
	}
}
