//go:build linux

// This file tests that an agent removes any tree of a task, and no other tree.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// hostileTrees makes difficult trees in the scratch directory and in the writable root. They have more levels than the
// agent may have open files, closed directories, long names, and links that lead out. runtime/tree tests deeper ones,
// because a shell would need minutes to make them.
const hostileTrees = `
	name=$(printf %0255d 7)
	for place in "$@"; do
		cd "$place" && mkdir closed && echo x > closed/file && chmod 0 closed || exit 7
		/bin/busybox ln -s / root && /bin/busybox ln -s .. up && echo x > $name || exit 7
		i=0; while [ $i -lt 250 ]; do mkdir d && cd -P d 2>/dev/null || exit 8; i=$((i+1)); done
	done`

// TestTreesOfAMachine checks that with every driver, a task's trees in its scratch directory and its layer are removed
// with few descriptors.
func TestTreesOfAMachine(t *testing.T) {
	onEveryDriver(t, func(t *testing.T, s *stack) {
		places := []string{"/scratch", "/var"}
		if s.image != "" {
			places = []string{"."}
		}
		task := Task{Rootfs: able.MakeRootfs(t), Command: append([]string{"/bin/sh", "-c", hostileTrees, "sh"}, places...)}
		if err := os.MkdirAll(filepath.Join(task.Rootfs, "var"), 0o777); err != nil {
			t.Fatal(err)
		}
		running, err := s.Start(task)
		if err != nil {
			t.Fatal(err)
		}
		if exit := await(t, running); exit.Code != 0 {
			t.Fatalf("it ended with %d", exit.Code)
		}
		s.options.KeepBytes = 1 // the next agent keeps nothing
		s.restart(t, func() { lowerDescriptors(t, 80) })
		until(t, "what it left is not removed", func() bool {
			left, err := filepath.Glob(filepath.Join(s.dir, "[gks]*", "*")) // gone, kept, scratch
			return err == nil && len(left) == 0
		})
	})
}

// lowerDescriptors limits this process to a few more files than it has open.
func lowerDescriptors(t *testing.T, more uint64) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	var was unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_NOFILE, &was)
	}
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)) + more, Max: was.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}

// TestDiskOfAMachine checks with every driver that a task that exceeds its disk limit ends, whether it writes to its
// scratch directory or to its layer. Its supervisor records the reason.
func TestDiskOfAMachine(t *testing.T) {
	onEveryDriver(t, func(t *testing.T, s *stack) {
		places := []string{"/scratch", "/tmp"}
		switch {
		case s.image != "":
			places = []string{"."}
		case strings.HasSuffix(t.Name(), "/upstream"): // that program's root is the image itself
			places = places[:1]
		}
		for _, place := range places {
			task := Task{Rootfs: able.MakeRootfs(t), DiskBytes: 8 << 20, Command: []string{"/bin/sh", "-c",
				"cd " + place + "; while :; do yes | head -c 40000000 > f; sleep 1; done"}}
			running, err := s.Start(task)
			if err != nil {
				t.Fatal(err)
			}
			if exit := await(t, running); exit.Code != 137 || exit.OOM || !running.(*staged).exit.Disk {
				t.Errorf("in %s: %v", place, running.(*staged).exit)
			}
		}
	})
}
