//go:build linux

package local

import (
	"crypto/ecdsa"
	"encoding/csv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cluster/identity"
)

// TestKeys checks that the user who starts the cluster is its admin, that the root key is not on disk, and that
// only this user may enter the folder. Tasks do not see the folder. The next run keeps the authority, so that
// certificates of people stay valid, and has other keys of nodes. A damaged authority is replaced.
func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a, cluster")
	c := &Cluster{o: Options{Dir: dir, Owner: "ada"}}
	if err := c.makeKeys(); err != nil {
		t.Fatal(err)
	}
	if err := c.certify(identity.RoleNode, "node-1", "node-1"); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{
		schedulerFolder: "synapse://local/ca/scheduler", ownerFolder: "synapse://local/admin/ada",
		"node-1": "synapse://local/node/node-1",
	} {
		made, err := identity.OpenFolder(c.keysOf(folder))
		if err != nil {
			t.Fatal(err)
		}
		if who, err := made.Identity(); err != nil || who.String() != want {
			t.Errorf("%s is of %v (%v), want %s", folder, who, err, want)
		}
		if made.Roots[0].PublicKey.(*ecdsa.PublicKey).Equal(made.Pair.Key.Public()) {
			t.Errorf("%s has the root's key", folder)
		}
	}
	err := filepath.WalkDir(filepath.Join(dir, keysFolder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && entry.IsDir() && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	flags, err := c.hide()
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := csv.NewReader(strings.NewReader(flags[1])).Read()
	want := []string{filepath.Join(dir, "scheduler"), filepath.Join(dir, "keys"), filepath.Join(dir, "secrets")}
	if err != nil || flags[0] != "--hide" || !slices.Equal(hidden, want) {
		t.Errorf("hidden are %q (%v), want %q", hidden, err, want)
	}

	before, err := os.ReadFile(filepath.Join(c.Keys(), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.makeKeys(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(c.Keys(), "ca.pem"))
	if _, gone := os.Stat(c.keysOf("node-1")); err != nil || string(after) != string(before) || gone == nil {
		t.Errorf("the next run trusts another root, or has the keys of nodes of the last (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(c.keysOf(schedulerFolder), "key.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.makeKeys(); err != nil {
		t.Fatal(err)
	}
	if after, err = os.ReadFile(filepath.Join(c.Keys(), "ca.pem")); err != nil || string(after) == string(before) {
		t.Errorf("a damaged authority is kept (%v)", err)
	}
}
