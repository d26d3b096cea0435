//go:build world

package world

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests the web UI when another scheduler becomes the leader.

// TestPageFollows kills the leading scheduler. The page must say that its data may be old until the other scheduler
// leads, and then show that scheduler's data by itself.
func TestPageFollows(t *testing.T) {
	t.Parallel()
	bin, folder := programs(t)
	database := pgtest.Start(t)
	url := database.Database(t)
	s := &surf{t: t, cli: filepath.Join(bin, "synapse-cli")}
	first, second := free(t), free(t)
	s.variables = []string{"SYNAPSE_SERVER=" + first + "," + second}
	start := func(address, data string) *daemon {
		return s.scheduler(filepath.Join(bin, "synapse-scheduler"), "--listen", address, "--store", url, "--data-dir",
			filepath.Join(folder, data))
	}
	leads := start(first, "one")
	before := s.submit("--name", "before", "--gpu", "8", "--allow-infeasible", "--image", "host", "--", "true")
	start(second, "two")
	s.browse(s.serve())
	s.visit("#/jobs")
	s.shows(before)
	if err := syscall.Kill(leads.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.shows("Data may be outdated")
	s.shows(before)
	s.await(`document.getElementById("away").hidden`)
	after := s.submit("--name", "after", "--gpu", "8", "--allow-infeasible", "--image", "host", "--", "true")
	s.shows(after)
	s.shows(before)
}
