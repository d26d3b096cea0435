package host

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAhead checks that the function runs with real-time priority if this process may set it. Afterwards the thread has
// its old priority, also after a panic.
func TestAhead(t *testing.T) {
	runtime.LockOSThread() // so that everything runs on one thread
	defer runtime.UnlockOSThread()
	want := uint32(unix.SCHED_FIFO)
	if !mayGoAhead() {
		t.Log("no real time for this process (RLIMIT_RTPRIO): it must run all the same")
		want = unix.SCHED_NORMAL
	}
	for _, breaks := range []bool{false, true} {
		ran := uint32(unix.SCHED_IDLE)
		func() {
			defer func() {
				if why := recover(); (why != nil) != breaks {
					t.Errorf("it broke with %v", why)
				}
			}()
			Ahead(func() {
				if ran = policyHere(t); breaks {
					panic("broken")
				}
			})
		}()
		if ran != want {
			t.Errorf("it ran by policy %d, not %d", ran, want)
		}
		if now := policyHere(t); now != unix.SCHED_NORMAL {
			t.Errorf("behind it the thread has policy %d", now)
		}
	}
}

func policyHere(t *testing.T) uint32 {
	t.Helper()
	as, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return as.Policy
}

// mayGoAhead tries to set the priority on a separate thread that ends.
func mayGoAhead() bool {
	may := make(chan bool)
	go func() {
		runtime.LockOSThread()
		first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		may <- unix.SchedSetAttr(0, &first, 0) == nil
	}()
	return <-may
}
