package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

// ear imitates a supervisor: it holds the task's lock and receives on the socket in the task's directory.
func ear(t *testing.T, home string) (heard func() string) {
	t.Helper()
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(home, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	dir, err := os.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	for _, err := range []error{
		unix.Flock(int(lock.Fd()), unix.LOCK_EX),
		unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/control", dir.Fd())}), // a path may be too long
		unix.Listen(fd, 1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	conn := -1
	return func() string { // returns the next packet; empty: none yet
		buffer := make([]byte, 256)
		if conn < 0 {
			if conn, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(conn) })
		}
		n, _ := unix.Read(conn, buffer)
		return string(buffer[:max(n, 0)])
	}
}

// TestStoppedBeforeFound checks a stop that arrives while a restarted agent looks for the task's supervisor. The task
// is stopped as soon as the supervisor is found. The last stop counts.
func TestStoppedBeforeFound(t *testing.T) {
	l, err := New(Options{
		Dir: t.TempDir(), Log: actors.NoLog{}, Drivers: []Driver{nil}, Supervisor: []string{"none"}, StuckAfter: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	task := l.newTask(topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: 1}})
	task.Spec, task.phase, task.spawned = &messages.JobSpec{}, phaseSpawning, true
	heard := ear(t, task.home)
	for _, grace := range []time.Duration{2 * time.Hour, time.Hour} {
		task.onStop(&messages.StopTask{Signal: 10, GraceMs: grace.Milliseconds()}, nil)
	}
	link, err := supervisor.Attach(task.home, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer task.leave()            // also closes the link, or the task would find the ear again and listen forever
	task.disk.watched.Store(true) // prevents measurements of this task
	task.onFound(link, nil)
	var words []string
	for word := heard(); word != ""; word = heard() {
		words = append(words, word)
	}
	want := []string{fmt.Sprintf("stop 10 %d", time.Hour.Nanoseconds())}
	words = slices.DeleteFunc(words, func(word string) bool { return strings.HasPrefix(word, "key ") })
	if !slices.Equal(words, want) {
		t.Errorf("the supervisor gets %q, want %q", words, want)
	}
}
