//go:build linux

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/able"
)

// TestCalmWatcher checks that one thread has a longer slack, that it is not the main thread, and that with one CPU
// no thread has.
func TestCalmWatcher(t *testing.T) {
	able.Need(t, able.Slack)
	usual, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	calmWatcher()
	if late := lateThreads(t); len(late) > 0 {
		t.Errorf("with one processor: %v", late)
	}
	runtime.GOMAXPROCS(2)
	calmWatcher()
	late := lateThreads(t) // the monitor thread and the threads that it created
	if len(late) == 0 || slices.Contains(late, strconv.Itoa(os.Getpid())) {
		t.Errorf("with two processors: %v of %d", late, os.Getpid())
	}
	for _, thread := range late {
		_ = os.WriteFile(filepath.Join("/proc", thread, "timerslack_ns"), usual, 0)
	}
}

// lateThreads returns the threads of this process with the slack of the monitor thread.
func lateThreads(t *testing.T) (late []string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		slack, err := os.ReadFile(filepath.Join("/proc", thread.Name(), "timerslack_ns"))
		if err == nil && strings.TrimSpace(string(slack)) == strconv.Itoa(watcherSlackNs) {
			late = append(late, thread.Name())
		}
	}
	return late
}
