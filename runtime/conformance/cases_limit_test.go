//go:build linux

// This file has the cases of a task's resources: memory, processes and devices.
package conformance

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var limitCases = []testCase{
	{"OOM is 137 and flagged", []Trait{Rootfs, Memory, ReportsOOM, OwnDev}, outOfMemory},
	{"OOM of a child is flagged too", []Trait{Rootfs, Memory, ReportsOOM, Init}, childOutOfMemory},
	{"fork bomb at pids.max", []Trait{Rootfs, Pids}, forkBomb},
	{"pids = 1 starts", []Trait{Rootfs, PidsExact}, onePid},
	{"limit of processes is exact", []Trait{Rootfs, PidsExact, Init}, exactPids},
	{"other device denied, even after mknod", []Trait{Rootfs, Devices}, otherDevice},
	{"granted device opens", []Trait{Rootfs, Devices}, grantedDevice},
}

func outOfMemory(s *suite) {
	task := Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{"/bin/tail", "/dev/zero"}, MemoryBytes: 32 << 20}
	if got := await(s, s.start(task)); got.Code != 137 || !got.OOM {
		s.Errorf("a task that ate all its memory ended with %+v", got)
	}
}

func childOutOfMemory(s *suite) {
	task := s.sh("tail /dev/zero; exit 5")
	task.MemoryBytes = 32 << 20
	// cgroup v2 kills the whole group, and v1 only the child. Both must be reported.
	if got := await(s, s.start(task)); !got.OOM || got.Code != 5 && got.Code != 137 {
		s.Errorf("a task whose child ate all its memory ended with %+v", got)
	}
}

func forkBomb(s *suite) {
	task := s.sh("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.2; echo survived")
	task.Pids = 32
	running := s.start(task)
	_ = running.Signal(unix.SIGTERM)
	_ = running.Kill()
	await(s, running)
}

func onePid(s *suite) {
	task := Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{"/bin/echo", "one"}, Pids: 1}
	for range 5 {
		task.ID = NewID()
		if got := s.output(task); got != "one\n" {
			s.Fatalf("got %q", got)
		}
	}
}

// exactPids checks that with a limit of n, exactly n - 1 children of a shell can live at once.
func exactPids(s *suite) {
	for _, limit := range []int64{2, 5} {
		script := "i=0; while test $i -lt 10; do sleep 1000 & i=$((i+1)); done 2>/dev/null; echo never"
		task := s.sh("n=0; (" + script + ") 2>/dev/null; wait")
		// The shell stops at the first fork that fails. Its own builtins then count the living processes from
		// inside.
		task.Command = []string{
			"/bin/sh", "-c", "trap 'set -- /proc/[0-9]*; echo $#; kill -9 -1' EXIT; i=0; while test $i -lt 10; do sleep 1000 " +
				"& i=$((i+1)); done",
		}
		task.Pids = limit
		text, _ := s.capture(task)
		var seen int64
		for line := range strings.Lines(text) {
			if _, err := fmt.Sscanf(line, "%d", &seen); err == nil && seen > 0 {
				break
			}
		}
		if seen-1 != limit { // one of them is init, which does not count
			s.Errorf("with a limit of %d, %d processes lived in addition to init: %q", limit, seen-1, text)
		}
	}
}

// otherDevice uses /dev/kmsg as another task's GPU. It is a character device that exists on every host, is not a plain
// device, and that any root may open for writing.
func otherDevice(s *suite) {
	task := s.sh("mknod /tmp/other c 1 11 || exit 10; test -c /tmp/other || exit 11; (: > /tmp/other) 2>/tmp/why && " +
		"exit 12; cat /tmp/why; exit 0")
	task.CapAdd = []string{"MKNOD"}
	text, exit := s.capture(task)
	// A filter may deny mknod or the open.
	if exit.Code != 0 && exit.Code != 10 {
		s.Errorf("exit %d (12: the device could be opened): %s", exit.Code, text)
	}
	if !strings.Contains(text, "not permitted") {
		s.Errorf("the denial reads %q", text)
	}
}

func grantedDevice(s *suite) {
	if _, err := os.Stat("/dev/kmsg"); err != nil {
		s.Skipf("the host has no /dev/kmsg to grant: %v", err)
	}
	task := s.sh("test -c /dev/kmsg && : > /dev/kmsg && echo open")
	task.Devices = []string{"/dev/kmsg"}
	if got := s.output(task); got != "open\n" {
		s.Errorf("a granted device: %q", got)
	}
}
