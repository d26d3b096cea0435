package account

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/topology"
)

// strangers is an id that no user and no group of this host has.
const strangers = 1_234_567_890

// TestGroupOfNumber checks that a uid without a name gets the group of the same number only if no group of the host has
// it.
func TestGroupOfNumber(t *testing.T) {
	own := strconv.Itoa(strangers)
	for _, name := range []string{own, own + ":" + own} {
		if a, err := lookUp(name); err != nil || a.UID != strangers || a.GID != strangers || len(a.Groups) > 0 {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if a, err := lookUp(own + ":" + strconv.Itoa(strangers+1)); err == nil {
		t.Errorf("in another group: %+v", a)
	}
	text, err := os.ReadFile("/etc/group")
	if err != nil {
		t.Skip(err)
	}
	tried := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 || fields[2] == "0" {
			continue
		}
		if _, err := user.LookupId(fields[2]); err == nil {
			continue
		}
		tried++
		if a, err := lookUp(fields[2]); err != nil || a.GID != nobody || len(a.Groups) > 0 {
			t.Errorf("the user %s is in the group %s: %+v, %v", fields[2], fields[0], a, err)
		}
	}
	if tried == 0 {
		t.Skip("every group of this host has the id of a user")
	}
}

// TestNumbers checks both ends of each range of permitted and forbidden uids.
func TestNumbers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to act as another user")
	}
	uids := topology.UIDRange{First: 1_500_000_000, Last: 1_500_000_009}
	rules := Rules{UIDs: uids, From: strangers}
	for number, says := range map[uint32]string{
		strangers - 1: "services", strangers: "", strangers + 1: "",
		uids.First - 1: "", uids.First: "jobs that name no user", uids.Last: "jobs that name no user", uids.Last + 1: "",
	} {
		a, err := rules.Of(strconv.Itoa(int(number)), 0)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) ||
			err == nil && (a.UID != number || a.OfJob || a.Root || a.Self) {
			t.Errorf("a job that names %d: %+v, %v", number, a, err)
		}
		a, err = rules.Of("", number)
		within := number >= uids.First && number <= uids.Last
		if (err == nil) != within || err != nil && fault.Of(err) != fault.Machine ||
			err == nil && (a.UID != number || a.GID != number || !a.OfJob || len(a.Groups) > 0) {
			t.Errorf("a job that is given %d: %+v, %v", number, a, err)
		}
	}
	for number, says := range map[string]string{"998": "services", "999": "services", "1001": ""} {
		a, err := Rules{}.Of(number, 0)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s without rules: %+v, %v", number, a, err)
		}
	}
	rules.Default, rules.From = strconv.Itoa(strangers), strangers+1
	if a, err := rules.Of("", 0); err != nil || a.UID != strangers {
		t.Errorf("the configured default: %+v, %v", a, err)
	}
}

// TestBarred checks that every directory above a path must let the account pass, as its owner, its group or another
// user. Only the mode bit of that kind counts.
func TestBarred(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: nothing can be given to others")
	}
	top := t.TempDir()
	for _, dir := range []string{filepath.Dir(top), top} { // the parent made by t.TempDir is private to one user
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	who := &Account{UID: strangers, GID: strangers + 1, Groups: []uint32{strangers + 2}}
	for _, c := range []struct {
		uid, gid int
		mode     os.FileMode
	}{
		{strangers, 0, 0o100}, {0, strangers + 1, 0o010}, {0, strangers + 2, 0o010}, {0, 0, 0o001},
		{strangers, strangers + 1, 0o100},
	} {
		dir := top + "/d"
		for bit := range 9 {
			mode := os.FileMode(1) << bit
			for _, err := range []error{os.Mkdir(dir, 0o700), os.Chown(dir, c.uid, c.gid), os.Chmod(dir, mode)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			barred, err := who.Barred(dir + "/file")
			if err != nil || (barred == "") != (mode == c.mode) || barred != "" && barred != dir {
				t.Errorf("a directory of %d:%d with %v: barred at %q, %v", c.uid, c.gid, mode, barred, err)
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}
