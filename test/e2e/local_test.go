package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/server/unixsocket"
	"github.com/yi-json/synapse/test/able"
)

// This file tests access through the local socket on the scheduler's host.

// here runs the command line with only the socket, as a user of the host. nil means the present user.
func (s *secured) here(as *syscall.Credential, args ...string) result {
	s.t.Helper()
	return ask(s.t, s.knocks(as, args...))
}

// knocks returns that command, before it runs.
func (s *secured) knocks(as *syscall.Credential, args ...string) *exec.Cmd {
	cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
	cmd.Env = append(cmd.Env, "SYNAPSE_TLS=", "SYNAPSE_SERVER="+unixsocket.Scheme+s.socket())
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	return cmd
}

func (s *secured) socket() string { return unixsocket.Path(filepath.Join(s.dir, "scheduler")) }

// TestLocalSocket checks that only the scheduler's own user has access by the socket, with the UID in the audit log,
// even if the directory's permissions were opened.
func TestLocalSocket(t *testing.T) {
	s := newSecured(t)
	s.here(nil, "whoami").wants(t, 0, ", admin of cluster e2e, through the scheduler's socket on this host", "")
	id := strings.TrimSpace(s.here(nil, "submit", "-q", "--cpu", "1", "--image", "host", "--allow-infeasible", "--",
		"true").wants(t, 0, "", "").out)
	s.here(nil, "cancel", id).wants(t, 0, "", "")
	s.cli("audit", filepath.Join(s.dir, "scheduler", "audit"), "-o", "json").
		wants(t, 0, fmt.Sprintf("uid %d by the local socket", os.Geteuid()), "")
	s.as("", "get", "jobs").wants(t, 5, "", "scheduler requires TLS") // the port is unchanged

	able.Need(t, able.Root)
	other := &syscall.Credential{Uid: 61874, Gid: 61874}
	s.here(other, "get", "jobs").wants(t, 8, "", "permission denied\nhint: use --server HOST:PORT with --tls or "+
		"a token: only root and the scheduler's user can use the socket")
	for path, mode := range map[string]os.FileMode{
		filepath.Join(s.dir, "scheduler"): 0o755, filepath.Dir(s.socket()): 0o755, s.socket(): 0o666,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	s.here(other, "get", "jobs").wants(t, 5, "",
		"process of uid 61874 is refused: the local socket accepts only root and uid 0")
	s.says("Refused a connection of uid 61874 by the local socket")
}

// TestMeByTheLocalSocket checks that `me` on the scheduler's host is the account of the calling process, as the kernel
// reports it, regardless of the environment. Root is never `me`, even if the scheduler runs as another user.
func TestMeByTheLocalSocket(t *testing.T) {
	everywhere(t)
	able.Need(t, able.Root, able.Program("setpriv"))
	t.Parallel()
	dir, err := os.MkdirTemp("", "synapse-e2e-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killAll(dir)
		os.RemoveAll(dir)
	})
	s := &secured{&cluster{t: t, dir: dir, program: filepath.Join(dir, "as-nobody")}, filepath.Join(dir, "keys")}
	s.cli("init", s.keys, "--cluster", "e2e").wants(t, 0, "", "")
	node := s.folder("node", "n1")
	const uid = 65534 // the UID of nobody, which every host has
	behind := fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid %d --regid %d --clear-groups %s \"$@\"\n", uid, uid,
		filepath.Join(bin, "synapse-scheduler"))
	if err := os.WriteFile(s.program, []byte(behind), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, s.keys} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	given(t, filepath.Join(s.keys, "scheduler"), uid)
	s.lead("127.0.0.1:0", "--tls", filepath.Join(s.keys, "scheduler"))
	s.node("n1", "r1", "--tls", node)

	nobody := &syscall.Credential{Uid: uid, Gid: uid}
	submit := func(user string) []string {
		return []string{"submit", "--cpu", "1", "--image", "host", "--user", user, "--attach", "--", "id", "-u"}
	}
	s.here(nobody, "whoami").wants(t, 0, "nobody, admin of cluster e2e, through the scheduler's socket", "")
	s.here(nobody, submit("me")...).wants(t, 0, "65534\n", "")
	lies := s.knocks(nobody, submit("me")...)
	lies.Env = append(lies.Env, "USER=daemon", "LOGNAME=daemon")
	ask(t, lies).wants(t, 0, "65534\n", "")
	s.here(nobody, "slurm", "sbatch", "--wait", "-D", "/tmp", "--wrap", `test "$(id -u)" = 65534`).wants(t, 0, "", "")
	s.here(nil, "whoami").wants(t, 0, "root, admin of cluster e2e, through the scheduler's socket", "")
	s.here(nil, submit("me")...).wants(t, 2, "", "me is never root, and you are root").
		wants(t, 2, "", "omit --user")
	s.here(nil, submit("daemon")...).wants(t, 7, "", "no node")
	// a job of root, with its own UID
	s.here(nil, "slurm", "sbatch", "--parsable", "--wrap", "true").wants(t, 0, "", "")
}
