package account

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// TestCheckUIDs checks that a range that overlaps a user or group of the host is refused with its name, and that an
// adjacent one is not.
func TestCheckUIDs(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"passwd": "root:x:0:0::/root:/bin/sh\nbroken\nann:x:2000000:100::/home/ann:/bin/sh\n",
		"group":  "root:x:0:\nteam:x:3000000:" + strings.Repeat("ann,", 40_000) + "\n",
		"subuid": "ann:4000000:65536\n# a note\n",
		"subgid": "ann:4294000000:700000\nbob:5000000:0\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for text, says := range map[string]string{
		"2000000-2999999": "/etc/passwd: ann ", "1000000-2000000": "/etc/passwd: ann ", "2000001-2999999": "",
		"1000000-1999999": "",
		"3000000-3000000": "/etc/group: team ", "4065535-4065536": "/etc/subuid: ann ", "4065536-4065537": "",
		"3999999-3999999": "",
		"3999999-4000000": "/etc/subuid: ann ", "4294100000-4294200000": "/etc/subgid: ann ", "5000000-5000001": "",
		"none": "",
	} {
		r, err := topology.ParseUIDRange(text)
		if err != nil {
			t.Fatal(err)
		}
		err = checkUIDs(root, r)
		if (err == nil) != (says == "") || err != nil && !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if err := checkUIDs(t.TempDir(), topology.UIDRange{First: 2_000_000, Last: 2_000_001}); err != nil {
		t.Errorf("a host without such files: %v", err)
	}
}

func TestCovers(t *testing.T) {
	r := topology.UIDRange{First: 2_000_000, Last: 2_999_999}
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true, "0 100000 65536\n": false,
		"0 1000 1\n1 100000 65536\n2000000 7 1000000\n": true,
		"2000000 7 999999\n":                            false, "2000001 7 1000000\n": false, "": false,
	} {
		if covers(text, r) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestOfJob checks that a job without a user gets the scheduler's uid, and that no job may name such a uid.
func TestOfJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	r := Rules{UIDs: topology.UIDRange{First: 2_000_000, Last: 2_999_999}, From: 5000}
	if got, err := r.Of("", 2_000_007); err != nil || got.UID != 2_000_007 || got.GID != 2_000_007 ||
		got.Groups != nil || !got.OfJob || got.Name != "job2000007" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.Of("", 0); err != nil || got.UID != nobody || got.OfJob {
		t.Errorf("without a number: %+v, %v", got, err)
	}
	if got, err := r.Of("61234", 2_000_007); err != nil || got.UID != 61234 {
		t.Errorf("one that names its user: %+v, %v", got, err)
	}
	r.Unmapped = true
	if got, err := r.Of("", 2_000_007); err != nil || got.UID != nobody {
		t.Errorf("where the agent has no such number: %+v, %v", got, err)
	}
	r.Unmapped = false
	for user, uid := range map[string]uint32{"": 3_000_000, "2000007": 0, "2000007:2000007": 2_000_007, "2999999": 0} {
		if got, err := r.Of(user, uid); err == nil {
			t.Errorf("%q, given %d: %+v", user, uid, got)
		}
	}
	if _, err := (Rules{}).Of("", 2_000_007); err == nil || !strings.Contains(err.Error(), "--uids none") {
		t.Errorf("a host that assigns none: %v", err)
	}
}
