//go:build linux

package bpf

// This file tests that filters are loaded despite other events in the process.

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLoadUnderSignals checks that a filter is loaded although each arriving signal would abort the load. Go itself
// sends signals to busy threads.
func TestLoadUnderSignals(t *testing.T) {
	var filter Program
	for range 2000 { // the kernel verifies each of them, which gives a signal time to arrive
		filter.Emit(Move64, 0, 0, 0, 1)
	}
	filter.Answer(1)
	hook := Hook{unix.BPF_PROG_TYPE_CGROUP_SKB, unix.BPF_CGROUP_INET_EGRESS}
	if loaded, err := hook.load(filter); err == nil {
		unix.Close(loaded)
	} else {
		t.Skipf("this host loads no filters: %v", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := unix.Gettid()
	var over atomic.Bool
	ended := make(chan int)
	go func() {
		sent := 0
		for ; !over.Load(); sent++ {
			_ = unix.Tgkill(os.Getpid(), self, unix.SIGURG) // the signal that Go itself uses
		}
		ended <- sent
	}()
	for range 100 {
		loaded, err := hook.load(filter)
		if err != nil {
			t.Error(err)
			break
		}
		unix.Close(loaded)
	}
	over.Store(true)
	t.Logf("%d signals", <-ended)
}
