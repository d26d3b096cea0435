package hostpolicy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/fault"
)

func written(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRead checks that a policy that is invalid, or that another user could change, is refused at the start.
func TestRead(t *testing.T) {
	for text, says := range map[string]string{
		"":                                          "",
		"users: {from: 5000}":                       "",
		"mounts: [{path: /usr, readOnly: true}]":    "",
		"user: {from: 5}":                           "field user not found",
		"users: {from: -1}":                         "line 1",
		"users: {owners: {a: nobody}}":              "",
		"users: {owners: {a: no-such-user}}":        "users.owners[\"a\"]: ",
		"users: {owners: {a: root}}":                "only with uids from 1000 on",
		"users: {owners: {a: '1'}, from: 2}":        "only with uids from 2 on",
		"users: {owners: {a: nobody}, from: 65533}": "",
		"users: {owners: {a: nobody}, from: 65534}": "",
		"users: {owners: {a: nobody}, from: 65535}": "only with uids from 65535 on",
		"users: {owners: {'': nobody}}":             "users.owners[\"\"]: ",
		"users: {any: true, denyGroups: []}":        "",
		"users: {denyGroups: ['']}":                 "users.denyGroups: ",
		"devices: [/dev/full]":                      "",
		"devices: [/dev/../dev/full]":               "devices[0]: ",
		"devices: [full]":                           "devices[0]: ",
		"devices: [/etc/passwd]":                    "devices[0]: ",
		"devices: [/dev/full, /dev/none]":           "devices[1]: ",
		"devices: [/dev/fd]":                        "is not a device node",
		"devices: [/dev/pts/0]":                     "each task has for itself",
		"devices: [/dev/nvidia0]":                   "belongs to a GPU",
		"devices: [/dev/dri/renderD128]":            "belongs to a GPU",
		"mounts: [{path: usr}]":                     "mounts[0].path: ",
		"mounts: [{path: /no/such}]":                "mounts[0].path: ",
		"mounts: [{path: /etc/passwd}]":             "is not a directory",
		"mounts: [{path: /usr, types: ['']}]":       "mounts[0].types[0]: ",
		"reach: [schedulers, metadata]":             "",
		"reach: [scheduler]":                        "reach[0]: ",
		"resolvers: [10.0.0.2]":                     "",
		"resolvers: [127.0.0.53]":                   "resolvers[0]: ",
		"images: [etc]":                             "images[0]: ",
		"registries: ['https://x']":                 "registries[0]: ",
	} {
		_, err := Read(written(t, text, 0o644))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestPolicyIsRoots checks that the agent does not start with a policy that others could write or replace.
func TestPolicyIsRoots(t *testing.T) {
	for bit := range 9 {
		mode := os.FileMode(1) << bit
		path := written(t, "", 0o600|mode)
		if _, err := Read(path); (err != nil) != (mode&0o022 != 0) || err != nil && !strings.Contains(err.Error(), "chmod") {
			t.Errorf("one with the mode %v: %v", 0o600|mode, err)
		}
		path = written(t, "", 0o600)
		if err := os.Chmod(filepath.Dir(path), 0o700|mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); (err != nil) != (mode&0o022 != 0) {
			t.Errorf("one in a directory with the mode %v: %v", 0o700|mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	path := written(t, "", 0o644)
	for _, of := range []string{path, filepath.Dir(path)} {
		if err := os.Chown(of, 1234, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), of+" belongs to user 1234") {
			t.Errorf("%s of another user: %v", of, err)
		}
		if err := os.Chown(of, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPolicy checks that a forbidden request is the job's fault, and that the effective policy is reported completely.
func TestPolicy(t *testing.T) {
	none := Policy{}
	if err := errors.Join(none.MayHostView(), none.MayProcess(), none.MayPull("any")); err != nil {
		t.Error(err)
	}
	p, err := Read(
		written(t, "users: {from: 5000, owners: {zoe: nobody, ann: '65534'}}\ndevices: [/dev/full]\n"+
			"mounts: [{path: /usr, readOnly: true, types: [ext4]}]\nimages: [/srv]\nregistries: [ghcr.io]\nhostView: false\n"+
			"processDriver: false\nnuma: true\nreach: [metadata]\n", 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{p.MayHostView(), p.MayProcess(), p.MayPull("docker.io")} {
		if fault.Of(err) != fault.Job {
			t.Errorf("%v", err)
		}
	}
	if p.MayPull("ghcr.io") != nil || len(p.MountRules([]string{"/x"}).Mounts) != 1 ||
		p.ImageRules(nil).Mounts[0].Path != "/srv" {
		t.Errorf("%+v", p)
	}
	for _, part := range []string{"users from 5000", "owners ann as 65534, zoe as nobody (not used without --tls",
		"devices /dev/full", "/usr (read-only) (on ext4)", "images in /srv",
		"registries ghcr.io", "no host view", "no plain processes",
		"tasks may choose NUMA nodes", "tasks may reach metadata"} {
		if !strings.Contains(p.String(), part) {
			t.Errorf("%q is not in %s", part, p)
		}
	}
	if !strings.Contains(none.String(), "users from 1000") || !strings.Contains(none.String(), "nfs4") {
		t.Error(none)
	}
}
