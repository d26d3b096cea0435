package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestReady checks that a service manager is notified of the start, of life and of the end, and that child
// processes do not inherit the socket.
func TestReady(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	hears := func(want string) {
		t.Helper()
		word := make([]byte, 64)
		_ = manager.SetReadDeadline(pace.Until(10 * time.Second))
		for {
			n, err := manager.Read(word)
			if err != nil {
				t.Fatalf("%s is not said: %v", want, err)
			}
			if string(word[:n]) == want {
				return
			}
			if string(word[:n]) != "WATCHDOG=1" {
				t.Fatalf("heard %s, want %s", word[:n], want)
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", at)
	t.Setenv("WATCHDOG_USEC", "2000")
	ending := Ready()
	hears("READY=1")
	hears("WATCHDOG=1")
	ending()
	hears("STOPPING=1")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
		if _, is := os.LookupEnv(name); is {
			t.Errorf("%s is in the environment of what is started now", name)
		}
	}
}

// TestNobodyToTell checks that a missing or dead service manager has no effect.
func TestNobodyToTell(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	Ready()()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	Ready()()
}
