package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// This file tests a scheduler whose disk is full.

// fullStore starts a cluster whose scheduler has a separate disk, and fills the disk. It returns a waiting job and a
// function that frees space.
func fullStore(t *testing.T) (c *cluster, waiting string, makeRoom func()) {
	t.Helper()
	able.Need(t, able.Mounts)
	everywhere(t)
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("the scheduler's disk cannot be removed: %v", err)
		}
	})
	c = newClusterOf(t, "", "--data-dir", filepath.Join(disk, "scheduler"))
	c.node("n1", "r1")
	waiting = strings.TrimSpace(c.cli(shell("true", "--begin=now+2h")...).wants(t, 0, "", "").out)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	return c, waiting, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullStore checks that every change is rejected with the cause within the time of --retry while the scheduler's
// disk is full, and that reads work. After space is freed, each request must have been executed once.
func TestFullStore(t *testing.T) {
	c, waiting, makeRoom := fullStore(t)
	const cause = "scheduler cannot write to its store"
	large := "--env=LARGE=" + strings.Repeat("x", 60<<10)
	refused, accepted := result{}, 0
	for range 200 { // the write-ahead log still has some space
		if refused = c.cli("submit", "--retry=1s", "--name=late", "--image=host", large, "--", "true"); refused.code != 0 {
			break
		}
		accepted++
	}
	refused.wants(t, 8, "", cause)
	t.Logf("%d submits were accepted, and the next was rejected after %s", accepted, refused.took)
	for _, change := range [][]string{
		{"submit", "--retry=1s", "--name=next", "--image=host", "--", "true"}, {"hold", "--retry=1s", waiting},
		{"cancel", "--retry=1s", waiting}, {"update", "--retry=1s", waiting, "--priority=7"},
		{"cordon", "--retry=1s", "n1", "--reason=fan"},
	} {
		a := c.cli(change...)
		a.wants(t, 8, "", cause)
		t.Logf("%s was rejected after %s", change[0], a.took)
	}
	c.cli("get", "jobs").wants(t, 0, waiting, "")
	makeRoom()
	c.await(waiting, "cancelled")
	page, err := c.client.ListJobs(c.ctx(), &messages.ListJobs{Name: "late"})
	if n := len(page.GetJobs()); err != nil || n != accepted+1 {
		t.Errorf("%d jobs exist (%v), but %d were accepted before the last one", n, err, accepted)
	}
	c.cli("submit", "--name=after", "--image=host", "--", "true").wants(t, 0, "", "")
}
