package activity

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the measurement with real processes.

// started starts a shell that is the first process of a task.
func started(t *testing.T, lines string) Root {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", lines)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	p, ok := supervisor.ReadProcess(c.Process.Pid)
	if !ok {
		t.Fatal("the process is gone")
	}
	return Root{PID: p.PID, Start: p.Start}
}

func (r Root) look() State { return Look(r.Members(supervisor.Processes())) }

// becomes waits until a task waits as expected.
func (r Root) becomes(t *testing.T, want messages.Wait) State {
	t.Helper()
	var s State
	if !pace.Wait(pace.Of(10*time.Second), func() bool { s = r.look(); return s.Wait == want }) {
		t.Fatalf("it %v in %q, want %v; threads %+v", s.Wait, s.Call, want, s.Threads)
	}
	return s
}

// TestWaits checks what a task waits for, also through a shell that waits for its child.
func TestWaits(t *testing.T) {
	started(t, "exec sleep 600").becomes(t, messages.Wait_WAIT_SLEEP)
	child := started(t, "sleep 600; true")
	if s := child.becomes(t, messages.Wait_WAIT_SLEEP); s.Main.PID == child.PID {
		t.Errorf("the shell counts as the process that works")
	}
	started(t, "while :; do :; done").becomes(t, messages.Wait_WAIT_RUNS)
	pipe := started(t, "sleep 600 | { read x; }")
	reads := func() bool { s := pipe.look(); return s.Wait == messages.Wait_WAIT_OTHER && s.Call == "read" }
	if !pace.Wait(pace.Of(10*time.Second), reads) {
		t.Errorf("the end of a pipe is %+v", pipe.look())
	}
	stopped := started(t, "sleep 600; true")
	stopped.becomes(t, messages.Wait_WAIT_SLEEP) // the child runs
	if err := syscall.Kill(-stopped.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s, text := stopped.becomes(t, messages.Wait_WAIT_STOPPED), ""
	shown := func() bool { // the shell may stop before its child
		text = string(Stacks(context.Background(), stopped.Members(supervisor.Processes()), s, ""))
		return strings.Contains(text, "(sleep), state T")
	}
	if !pace.Wait(pace.Of(10*time.Second), shown) || strings.Count(text, "thread ") != 2 {
		t.Errorf("the stacks are %q", text)
	}
	gone := Root{PID: stopped.PID, Start: stopped.Start + 1}
	if s = gone.look(); s.Wait != messages.Wait_WAIT_UNSPECIFIED {
		t.Errorf("another process with the same pid counts: %v", s)
	}
}

// TestBusy checks that CPU time and written bytes count as activity, and that a task that only waits is quiet.
func TestBusy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model")
	for lines, want := range map[string]bool{
		"exec sleep 600":                 false,
		"while :; do :; done":            true,
		"while :; do sleep 0.2; done":    false,
		"trap '' TERM; sleep 600 & wait": false,
		"while :; do head -c 200000 /dev/zero > " + file + "; sleep 0.2; done": true,
	} {
		r := started(t, lines)
		var busy, known bool
		holds := func() bool {
			before := Take(clock.BootNs(), r.Members(supervisor.Processes()))
			time.Sleep(time.Second)
			busy, known = Take(clock.BootNs(), r.Members(supervisor.Processes())).Busy(before)
			return known && busy == want
		}
		if !pace.Wait(pace.Of(10*time.Second), holds) {
			t.Errorf("%s: busy %t, known %t", lines, busy, known)
		}
	}
	if _, known := (Sample{AtNs: 2, Known: true}).Busy(Sample{AtNs: 1}); known {
		t.Error("a task that could not be measured is known")
	}
}

// TestUnread checks that only the unread bytes of a task's own connections count.
func TestUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tcp")
	text := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D2F0 01 00000000:00000010 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1
   2: 0100007F:1F91 0100007F:D2F1 08 00000000:00000002 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1
   3: 0100007F:1F92 0100007F:D2F2 01 00000000:00000100 00:00000000 00000000     0        0 14 1 0 20 4 30 10 -1
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := unreadIn(path, map[string]bool{"11": true, "12": true, "13": true}); n != 18 {
		t.Errorf("%d unread bytes, want 18", n)
	}
}

// TestCalls checks how a thread's system call and kernel function are understood.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		thread Thread
		want   messages.Wait
	}{
		{Thread{State: 'S', Call: "recvfrom"}, messages.Wait_WAIT_PEER},
		{Thread{State: 'S', Call: "poll"}, messages.Wait_WAIT_PEER},
		{Thread{State: 'S', Call: "poll", empty: true}, messages.Wait_WAIT_SLEEP},
		{Thread{State: 'S', Call: "read", socket: true}, messages.Wait_WAIT_PEER},
		{Thread{State: 'S', Call: "read"}, messages.Wait_WAIT_OTHER},
		{Thread{State: 'S', Call: "futex"}, messages.Wait_WAIT_LOCK},
		{Thread{State: 'D', Call: "futex"}, messages.Wait_WAIT_DISK},
		{Thread{State: 'S', Channel: "futex_do_wait"}, messages.Wait_WAIT_LOCK},
		{Thread{State: 'S', Channel: "wait_woken"}, messages.Wait_WAIT_PEER},
		{Thread{State: 'S', Channel: "something_new"}, messages.Wait_WAIT_UNSPECIFIED},
		{Thread{}, messages.Wait_WAIT_UNSPECIFIED},
	} {
		if got := c.thread.kind(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.thread, got, c.want)
		}
	}
	main := supervisor.Process{PID: 7, State: 'S'}
	waits := []Thread{{PID: 7, TID: 7, State: 'S', Call: "futex"}, {PID: 7, TID: 8, State: 'S', Call: "epoll_wait"}}
	if got, _ := classify([]supervisor.Process{main}, main, waits); got != messages.Wait_WAIT_LOCK {
		t.Errorf("a thread of a library counts: %v", got)
	}
	waits[1].Call = "recvfrom"
	got, call := classify([]supervisor.Process{main}, main, waits)
	if got != messages.Wait_WAIT_PEER || call != "recvfrom" {
		t.Errorf("the thread that the first thread waits for gives %v in %s", got, call)
	}
}
