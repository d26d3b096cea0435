package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/cluster/socket"
	"github.com/yi-json/synapse/test/able"
)

// This file owns the way in on the scheduler's own machine, by its socket.

// here runs the command line with the socket alone, as a user of the machine; nil: as we are.
func (s *secured) here(as *syscall.Credential, args ...string) answer {
	s.t.Helper()
	cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
	cmd.Env = append(cmd.Env, "SYNAPSE_TLS=", "SYNAPSE_SERVER="+socket.Scheme+s.socket())
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	return ask(s.t, cmd)
}

func (s *secured) socket() string { return socket.Path(filepath.Join(s.dir, "scheduler")) }

// TestLocalSocket: whoever a scheduler runs as commands it by the socket, with the uid in the audit, and nobody else
// does, also where the folder was opened.
func TestLocalSocket(t *testing.T) {
	s := newSecured(t)
	s.here(nil, "whoami").wants(t, 0, ", admin of cluster e2e, by the scheduler's socket on this machine", "")
	id := strings.TrimSpace(s.here(nil, "submit", "-q", "--cpu", "1", "--image", "host", "--allow-infeasible", "--",
		"true").wants(t, 0, "", "").out)
	s.here(nil, "cancel", id).wants(t, 0, "", "")
	s.cli("audit", filepath.Join(s.dir, "scheduler", "audit"), "-o", "json").
		wants(t, 0, fmt.Sprintf("uid %d by the local socket", os.Geteuid()), "")
	s.as("", "get", "jobs").wants(t, 5, "", "the scheduler speaks TLS only") // the port is as it was

	able.Need(t, able.Root)
	other := &syscall.Credential{Uid: 61874, Gid: 61874}
	s.here(other, "get", "jobs").wants(t, 8, "", "permission denied\nhint: the socket is for root")
	for path, mode := range map[string]os.FileMode{
		filepath.Join(s.dir, "scheduler"): 0o755, filepath.Dir(s.socket()): 0o755, s.socket(): 0o666,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	s.here(other, "get", "jobs").wants(t, 5, "", "it is of uid 61874, and the local socket is for root and for uid 0")
	s.says("Refused a connection of uid 61874 by the local socket")
}
