//go:build linux

// This file tests the memory use of temporary file systems: the files of all of them count for the task.
package conformance

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// TestTemporaryOfAMachine checks a task that fills four temporary file systems, each below its memory limit. It runs
// out of memory, and a neighbour keeps its files.
func TestTemporaryOfAMachine(t *testing.T) {
	onEveryDriver(t, func(t *testing.T, s *stack) {
		kind := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		if kind == "process" || kind == "upstream" {
			return // these belong to the host or to the image
		}
		if why := s.Lacks(Memory) + s.Lacks(ReportsOOM); why != "" {
			t.Skip(why)
		}
		s.image = "host" // the host view has all four
		const mine = `trap 'filled=1' USR1; for d in /tmp /run /var/tmp /dev/shm; do echo mine > $d/mine || exit 7; done
			echo ready; until test $filled; do sleep 0.05; done
			cat /tmp/mine /run/mine /var/tmp/mine /dev/shm/mine > all || exit 8; test $(wc -l < all) = 4`
		neighbour, err := s.Start(Task{
			Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sh", "-c", mine}, MemoryBytes: 64 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the neighbour has not written",
			func() bool { return strings.HasSuffix(neighbour.(*staged).said(), "ready\n") })
		const fill = `for d in /tmp /run /var/tmp /dev/shm; do head -c 30000000 /dev/zero > $d/f || exit 9; done; exit 0`
		greedy, err := s.Start(Task{
			Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sh", "-c", fill}, MemoryBytes: 64 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		// cgroup v2 kills the whole group, and v1 only the child.
		if exit := await(t, greedy); !exit.OOM || exit.Code != 9 && exit.Code != 137 {
			t.Errorf("120 MB of temporary files in 64 MiB of memory ended with %+v: %v", exit, greedy.(*staged).exit)
		}
		if err := neighbour.Signal(unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if exit := await(t, neighbour); exit.Code != 0 || exit.OOM {
			t.Errorf("its neighbour ended with %+v: %v", exit, neighbour.(*staged).exit)
		}
	})
}
