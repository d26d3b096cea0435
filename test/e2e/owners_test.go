package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// This file tests two jobs of two owners on one node.

// TestJobsOfTwoOwners checks that a job cannot reach anything of another owner's job on the same node.
func TestJobsOfTwoOwners(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Root) // an agent that is not root runs all jobs as its own user
	for _, driver := range []string{"process", "carapace", "oci"} {
		t.Run(driver, func(t *testing.T) {
			needDriver(t, driver)
			program, err := ownersScheduler()
			if err != nil {
				t.Fatal(err)
			}
			first := 3_000_000 + os.Getpid()%1000*1000 // other tests on this host also have jobs
			uids := fmt.Sprintf("%d-%d", first, first+999)
			c := newClusterOf(t, program, "--uids", uids)
			c.contain(driver)
			c.node("n1", "r1", "--uids", uids)
			twoOwners(t, c)
		})
	}
}

func twoOwners(t *testing.T, c *cluster) {
	tmp, shm := fmt.Sprintf("/tmp/owners-%d", os.Getpid()), fmt.Sprintf("/dev/shm/owners-%d", os.Getpid())
	t.Cleanup(func() { _, _ = os.Remove(tmp), os.Remove(shm) }) // for plain processes these belong to the host
	begun := func(owner, script string) *messages.JobStatus {
		spec := gang(1, 0, script)
		spec.User, spec.Env = "", []*messages.EnvVar{{Name: "TOKEN", Value: "secret-of-" + owner}}
		reply, err := c.client.Submit(as(owner), &messages.Submit{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		return c.until(reply.Job, "begun", func(s *messages.JobStatus) bool {
			return s.Phase == "running" || s.Record.State.Terminal()
		})
	}
	victim := begun("alice",
		fmt.Sprintf("umask 077; echo secret > file; echo secret > %s; echo secret > %s; sleep 600 & echo ready; wait",
			tmp, shm)) // which then has all its processes
	c.said(victim.Record.Id, "ready\n")
	pids := pidsOf(t, victim.Record.Uid)
	if len(pids) == 0 || victim.Record.Owner.Name != "alice" {
		t.Fatalf("%d processes of %v", len(pids), victim.Record)
	}
	script := fmt.Sprintf("exec 2> /dev/null; cat %[1]s %[2]s; rm %[1]s && echo removed; rm %[2]s && echo removed; ",
		tmp, shm)
	for _, pid := range pids {
		script += fmt.Sprintf("cat /proc/%[1]s/environ; head -c 1 /proc/%[1]s/mem && echo memory; cat "+
			"/proc/%[1]s/cwd/file; ls /proc/%[1]s/root/ && echo root; kill -0 %[1]s && echo there; kill -9 %[1]s && echo "+
			"killed; ", pid)
	}
	stranger := begun("mallory", script+"echo over")
	s := c.until(stranger.Record.Id, "over",
		func(s *messages.JobStatus) bool { return s.Record.State.Terminal() })
	if got := c.logs(s.Record.Id); got != "over\n" || s.Record.Owner.Name != "mallory" ||
		s.Record.Uid == victim.Record.Uid {
		t.Errorf("mallory, as user %d, reached %q of alice's job", s.Record.Uid, got)
	}
	if left := pidsOf(t, victim.Record.Uid); len(left) != len(pids) || c.job(victim.Record.Id).Phase != "running" {
		t.Errorf("of alice's processes %v only %v are left", pids, left)
	}
	c.cancel(victim.Record.Id)
	c.until(victim.Record.Id, "over",
		func(s *messages.JobStatus) bool { return s.Record.State.Terminal() })
}

// pidsOf returns the processes of a user.
func pidsOf(t *testing.T, uid uint32) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && info.Sys().(*syscall.Stat_t).Uid == uid {
			pids = append(pids, filepath.Base(path))
		}
	}
	return pids
}
