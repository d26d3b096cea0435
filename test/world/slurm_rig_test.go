//go:build world

package world

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file starts a cluster for an ordinary user with Slurm's commands in their PATH.

// ordinary is an account that every Debian has. It has no rights on the nodes.
const ordinary = "nobody"

// slurmUser is an ordinary user of a cluster of two nodes.
type slurmUser struct {
	t    *testing.T
	home string // the folder in which the user works
	env  []string
	as   *syscall.SysProcAttr
}

// newSlurmUser starts the cluster. It needs root, which gives the jobs of the user their account.
func newSlurmUser(t *testing.T) *slurmUser {
	t.Helper()
	able.Need(t, able.Containers)
	who, err := user.Lookup(ordinary)
	if err != nil || os.Getuid() != 0 {
		t.Skipf("only root can run a program as %s: %v", ordinary, err)
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	bin, folder := made(t)
	config := up(t, bin, folder, "--nodes", "2")
	u := &slurmUser{t: t, home: filepath.Join(folder, "home"),
		as: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}}
	doors := filepath.Join(folder, "slurm")
	for _, words := range [][]string{
		{"slurm", "install", doors},
		{"certify", "submitter", ordinary, "--by", filepath.Join(folder, "cluster", "keys", "scheduler"),
			"--out", filepath.Join(u.home, "key")},
	} {
		if err := os.MkdirAll(u.home, 0o755); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command(filepath.Join(bin, "synapse-cli"), words...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", words, err, text)
		}
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	server, _, _ := bytes.Cut(text, []byte("\n"))
	own := filepath.Join(u.home, "cli.yaml")
	if err := os.WriteFile(own, []byte(string(server)+"\ntls: "+filepath.Join(u.home, "key")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(u.home, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	if err != nil {
		t.Fatal(err)
	}
	u.env = []string{"PATH=" + doors + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + u.home, "USER=" + ordinary,
		"LOGNAME=" + ordinary, "SYNAPSE_CONFIG=" + own}
	return u
}

// run runs a program as the user, and returns its output and errors together.
func (u *slurmUser) run(limit time.Duration, words ...string) (string, error) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/env", append(u.env, words...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = u.home, []string{}, u.as, 10*time.Second
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// write creates a file of the user.
func (u *slurmUser) write(name, text string, mode os.FileMode) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.home, name), []byte(text), mode); err != nil {
		u.t.Fatal(err)
	}
}
