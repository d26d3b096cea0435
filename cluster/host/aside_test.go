package host

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestAside: what runs aside runs on a thread that yields, and is over when it is said to be; what breaks there breaks
// whoever waits for it, and nobody else.
func TestAside(t *testing.T) {
	aside := NewAside()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		there := 0
		aside(func() { there, err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) })
		if err != nil || there != max(own-yields, 1) { // the kernel answers 20 less it
			t.Errorf("it runs at %d beside %d, %v", there, own, err)
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
