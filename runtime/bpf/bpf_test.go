//go:build linux

package bpf

// This file owns the test that filters are loaded whatever else happens to a process.

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLoadUnderSignals: a filter is loaded although signals come meanwhile, at each of which the kernel would give up.
// Go itself sends some to threads that are busy for long.
func TestLoadUnderSignals(t *testing.T) {
	var filter Program
	for range 2000 { // of which each is looked at, so that a signal has time to come
		filter.Emit(Move64, 0, 0, 0, 1)
	}
	filter.Answer(1)
	hook := Hook{unix.BPF_PROG_TYPE_CGROUP_SKB, unix.BPF_CGROUP_INET_EGRESS}
	if loaded, err := hook.load(filter); err == nil {
		unix.Close(loaded)
	} else {
		t.Skipf("this machine loads no filters: %v", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := unix.Gettid()
	var over atomic.Bool
	ended := make(chan int)
	go func() {
		sent := 0
		for ; !over.Load(); sent++ {
			_ = unix.Tgkill(os.Getpid(), self, unix.SIGURG) // which Go uses for that, and nobody minds
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
