package e2e

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file tests the time zone of the command line.

// zoneFile writes a file of time zone data with one zone, so that the test needs no data of the host.
func zoneFile(t *testing.T, name string, offset int32) (path string) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("TZif" + strings.Repeat("\x00", 16)) // version 1
	// The counts: UTC indicators, standard indicators, leap seconds, transitions, types, characters of names.
	for _, n := range []int32{0, 0, 0, 0, 1, int32(len(name)) + 1, offset} {
		_ = binary.Write(&b, binary.BigEndian, n)
	}
	b.WriteString("\x00\x00" + name + "\x00") // no summer time, and the index of the name
	path = filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTimeZone checks that a terminal shows times in the zone of the user, in UTC with --utc, and that programs read
// UTC.
func TestTimeZone(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	day := time.Now().AddDate(0, 6, 0).UTC().Format(time.DateOnly)
	id := c.order("true", "--begin", day+"T17:26:00Z")
	zone := "TZ=" + zoneFile(t, "CET", 3600)
	for _, of := range []struct{ command, want, not string }{
		{"get jobs", day + " 18:26 CET", "17:26"},
		{"get jobs --utc", day + " 17:26Z", "CET"},
		{"describe job " + id, day + "T18:26:00+01:00", "17:26"},
		{"describe job --utc " + id, day + "T17:26:00Z", "18:26"},
		{"events", "+01:00", "Z  "},
		{"explain " + id, "18:26 CET", "17:26"},
		{"get jobs -o json", day + " 17:26Z", "CET"},
		{"get jobs -o jsonpath={.items[0].status.submittedAt}", "Z", "+01:00"},
	} {
		for _, columns := range []uint16{60, 80, 160} {
			cmd := c.command(filepath.Join(bin, "synapse-cli"), strings.Fields(of.command)...)
			cmd.Env = append(cmd.Env, zone)
			said := strings.Join(strings.Fields(onWidth(t, cmd, columns)), " ") // a reason may be on two lines
			if !strings.Contains(said, of.want) || strings.Contains(said, of.not) {
				t.Errorf("%s at %d columns: want %q and not %q in %q", of.command, columns, of.want, of.not, said)
			}
		}
	}
}
