//go:build linux

package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// This file tests the limit of processes that all tasks of a node share.

// TestProcessesOfAll checks that two containers within their own limits cannot exceed the limit of their parent
// together. A running container keeps its processes when a later one lowers the limit.
func TestProcessesOfAll(t *testing.T) {
	able.Need(t, able.Root, able.Cgroups)
	o := newOwn(t)
	begin := func(limits carapace.Limits) *carapace.Container {
		container, err := carapace.Start(carapace.Spec{
			Rootfs: "host", Limits: limits,
			Command: []string{"sh", "-c", "i=0; while [ $i -lt 8 ]; do sleep 600 & i=$((i+1)); done; wait"},
		}, o.options)
		if err != nil {
			t.Fatal(err)
		}
		return container
	}
	all := carapace.Limits{Pids: 64, AllPids: 14}
	first := begin(all)
	if text := strings.Join(first.Unenforced(), "; "); strings.Contains(text, "pids limit") {
		t.Skip("this host has no limit of processes: " + text)
	}
	processes := func(c *carapace.Container) int {
		stats, err := c.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats.Processes
	}
	for end := time.Now().Add(limit); processes(first) < 9 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := processes(first); n != 9 {
		t.Fatalf("the first container has %d processes", n)
	}
	all.AllPids = 13
	text, exit := o.run(carapace.Spec{Rootfs: "host", Limits: all, Command: []string{
		"sh", "-c", "i=0; while [ $i -lt 8 ]; do sleep 600 & i=$((i+1)); done; wait",
	}})
	if exit.Code == 0 || !strings.Contains(strings.ToLower(text), "fork") {
		t.Errorf("the second one ended with %+v: %s", exit, text)
	}
	if n := processes(first); n != 9 {
		t.Errorf("the first container has %d processes behind the second", n)
	}
	_ = first.Kill()
	if exit := first.Wait(); exit.Leftover != "" {
		t.Error(exit.Leftover)
	}
}
