package host

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestAside checks that work runs on a low-priority thread and has ended when the call returns. A panic reaches only
// the caller.
func TestAside(t *testing.T) {
	aside := NewAside()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		there := 0
		aside(func() { there, err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) })
		if err != nil || there != max(own-yields, 1) { // the kernel returns 20 minus the nice value
			t.Errorf("runs at priority %d, the caller at %d, %v", there, own, err)
		}
		func() {
			defer func() {
				if why := recover(); why != "broken" {
					t.Errorf("it broke with %v", why)
				}
			}()
			aside(func() { panic("broken") })
		}()
	}
}
