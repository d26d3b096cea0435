//go:build linux

// Trees that tasks leave: an agent removes them whatever they are, and takes no other's for theirs.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// hostileTrees makes, in scratch and in the writable root, directories that lie deeper than the agent may have files
// open, closed ones, long names, and links out. runtime/tree shows deeper ones: a shell takes minutes to make those.
const hostileTrees = `
	name=$(printf %0255d 7)
	for place in "$@"; do
		cd "$place" && mkdir closed && echo x > closed/file && chmod 0 closed || exit 7
		/bin/busybox ln -s / root && /bin/busybox ln -s .. up && echo x > $name || exit 7
		i=0; while [ $i -lt 250 ]; do mkdir d && cd -P d 2>/dev/null || exit 8; i=$((i+1)); done
	done`

// TestTreesOfAMachine: what a task leaves in scratch and in its layer is removed with few descriptors, on every driver.
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

// lowerDescriptors bounds this process to some files more than it has open.
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

// TestDiskOfAMachine: a task that keeps more than it may ends for the disk, whether it writes to scratch or to its own
// layer of the image, on every driver; its supervisor writes down why.
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
