//go:build linux

// This file has the cases of exec sessions. A session has the environment of the task and a separate end, which does
// not affect the task.
package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var execCases = []testCase{
	{"an exec session is inside as the task is", []Trait{ExecSessions}, execIsInside},
	{"an exec session ends with its own code", []Trait{ExecSessions}, execCodes},
	{"an exec session has its own streams, each closed alone", []Trait{ExecSessions}, execStreams},
	{"an exec session has a terminal", []Trait{ExecSessions}, execTerminal},
	{"an exec session ends with the task, whose end is exact", []Trait{ExecSessions}, execEndsWithTask},
	{"an exec session is signalled, and hung up on", []Trait{ExecSessions}, execHungUp},
	{"exec sessions leave nothing", []Trait{ExecSessions}, execLeavesNothing},
}

// exec starts a session in a task.
func (s *suite) exec(running Running, what ExecSpec) ExecSession {
	s.Helper()
	another, err := running.(Joinable).Exec(what)
	if err != nil {
		s.Fatalf("run %q: %v", what.Command, err)
	}
	return another
}

// execToEnd runs a script in a task until its end, with this text on its stdin.
func (s *suite) execToEnd(running Running, script, stdin string, env ...string) (string, int) {
	s.Helper()
	fromIn, toIn := s.pipe()
	fromOut, toOut := s.pipe()
	another := s.exec(running, ExecSpec{
		Command: []string{"/bin/sh", "-c", script}, Env: env, Stdin: fromIn, Stdout: toOut, Stderr: toOut,
	})
	fromIn.Close()
	toOut.Close()
	_, _ = io.WriteString(toIn, stdin)
	toIn.Close()
	_ = fromOut.SetReadDeadline(time.Now().Add(limit))
	text, err := io.ReadAll(fromOut)
	fromOut.Close()
	if err != nil {
		s.Errorf("%q: %v", script, err)
	}
	return string(text), another.Wait()
}

func (s *suite) pipe() (reader, writer *os.File) {
	s.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { reader.Close(); writer.Close() })
	return reader, writer
}

func execIsInside(s *suite) {
	const look = `id -u; id -g; umask; pwd; ulimit -a; echo "$COLOUR"
grep -E "Groups|Cap|NoNew|Seccomp:" /proc/self/status
for n in mnt pid net ipc uts user cgroup; do readlink /proc/self/ns/$n; done; cat /proc/self/cgroup; ls /`
	fromOut, toOut := s.pipe()
	task := s.sh(look + "; echo .; exec sleep 1000")
	task.Env, task.Stdout = []string{"COLOUR=blue"}, toOut
	running := s.start(task)
	toOut.Close()
	var want strings.Builder
	for lines := bufio.NewScanner(fromOut); lines.Scan() && lines.Text() != "."; {
		want.WriteString(lines.Text() + "\n")
	}
	got, code := s.execToEnd(running, look, "")
	if got != want.String() || code != 0 {
		s.Errorf("code %d; the task sees\n%s\na further process\n%s", code, want.String(), got)
	}
	if got, _ := s.execToEnd(running, "echo $COLOUR $MORE", "", "COLOUR=red", "MORE=more"); got != "red more\n" {
		s.Errorf("its own environment is %q", got)
	}
}

func execCodes(s *suite) {
	running := s.start(s.sh("exec sleep 1000"))
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -9 $$": 137, "kill -TERM $$": 143,
	} {
		if _, code := s.execToEnd(running, script, ""); code != want {
			s.Errorf("%q ended with %d", script, code)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer null.Close()
	_, err = running.(Joinable).Exec(ExecSpec{
		Command: []string{"/bin/nothing-here"}, Stdin: null, Stdout: null, Stderr: null,
	})
	if err == nil {
		s.Error("a program that is not there was run")
	}
}

func execStreams(s *suite) {
	running := s.start(s.sh("exec sleep 1000"))
	if got, code := s.execToEnd(running, "cat; echo end", "through"); got != "throughend\n" || code != 0 {
		s.Errorf("%q with %d", got, code)
	}
	big := strings.Repeat("0123456789abcdef", 1<<16) // more than a pipe holds
	if got, _ := s.execToEnd(running, "wc -c", big); strings.TrimSpace(got) != fmt.Sprint(len(big)) {
		s.Errorf("%q of %d bytes came", got, len(big))
	}
}

func execTerminal(s *suite) {
	running := s.start(s.sh("exec sleep 1000"))
	const script = "test -t 0 && test -t 2 && echo tty; read x; stty size; echo got $x; sleep 1000"
	another := s.exec(running, ExecSpec{Command: []string{"/bin/sh", "-c", script}, Terminal: true})
	near := another.Near()
	defer near.Close()
	lines := bufio.NewReader(near)
	expect := func(want string) {
		s.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				s.Fatalf("%q did not come: %v", want, err)
			}
			if strings.TrimSpace(line) == want {
				return
			}
		}
	}
	expect("tty")
	resize(s, near, 33, 111)
	_, _ = io.WriteString(near, "word\n")
	expect("33 111")
	expect("got word")
	ended := make(chan int, 1)
	go func() { ended <- another.Wait() }()
	for { // A shell may lose a Ctrl-C at the moment when it begins its next command.
		_, _ = near.Write([]byte{3})
		select {
		case code := <-ended:
			if code != 128+int(syscall.SIGINT) {
				s.Errorf("Ctrl-C ended it with %d", code)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func resize(s *suite, near *os.File, rows, columns uint16) {
	s.Helper()
	raw, err := near.SyscallConn()
	if err != nil {
		s.Fatal(err)
	}
	var wrong error
	err = raw.Control(func(fd uintptr) {
		wrong = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err := errors.Join(err, wrong); err != nil {
		s.Fatal(err)
	}
}

func execEndsWithTask(s *suite) {
	fromOut, toOut := s.pipe()
	running := s.ready(s.sh("trap 'exit 33' USR1; echo ready; while :; do sleep 0.01; done"))
	another := s.exec(running, ExecSpec{
		Command: []string{"/bin/sh", "-c", "echo begun; exec sleep 1000"}, Stdin: fromOut, Stdout: toOut, Stderr: toOut,
	})
	if _, code := s.execToEnd(running, "exit 9", ""); code != 9 {
		s.Errorf("a second one ended with %d", code)
	}
	_, _ = io.ReadFull(fromOut, make([]byte, len("begun\n")))
	if err := running.Signal(syscall.SIGUSR1); err != nil {
		s.Fatal(err)
	}
	if exit := await(s, running); exit.Code != 33 || exit.OOM {
		s.Errorf("the task ended with %+v", exit)
	}
	if code := another.Wait(); code != 128+int(syscall.SIGKILL) {
		s.Errorf("an exec session outlived its task, or ended with %d", code)
	}
}

func execHungUp(s *suite) {
	running := s.start(s.sh("exec sleep 1000"))
	begin := func() (ExecSession, *os.File) {
		fromIn, _ := s.pipe()
		fromOut, toOut := s.pipe()
		another := s.exec(running, ExecSpec{
			Command: []string{"/bin/sh", "-c", "sleep 1000 & echo begun; wait"}, Stdin: fromIn, Stdout: toOut, Stderr: toOut,
		})
		toOut.Close()
		_, _ = io.ReadFull(fromOut, make([]byte, len("begun\n")))
		return another, fromOut
	}
	another, out := begin()
	if err := another.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	if code := another.Wait(); code != 128+int(syscall.SIGTERM) {
		s.Errorf("TERM ended it with %d", code)
	}
	out.Close()
	another, out = begin()
	another.HangUp()
	_ = out.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.ReadAll(out); err != nil { // ends when the last of its processes has ended
		s.Errorf("it goes on after its terminal was hung up: %v", err)
	}
	if _, code := s.execToEnd(running, "exit 4", ""); code != 4 {
		s.Errorf("the next one ended with %d", code)
	}
}

// inARow is the number of sessions one after the other, and atOnce the number of concurrent ones.
const inARow, atOnce = 100, 50

func execLeavesNothing(s *suite) { s.leavesNothing(inARow) }

func (s *suite) leavesNothing(inARow int) {
	running := s.start(s.sh("exec sleep 1000"))
	if _, code := s.execToEnd(running, "exit 0", ""); code != 0 {
		s.Fatal(code)
	}
	before := openFiles(s)
	for range inARow {
		if _, code := s.execToEnd(running, "exit 5", ""); code != 5 {
			s.Fatal(code)
		}
	}
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() { // of one process each, because a task may have 64
			if text, code := s.execToEnd(running, `read -r word; printf %s "$word"; exit 6`, "word"); code != 6 || text != "word" {
				s.Errorf("%q, %d", text, code)
			}
		})
	}
	all.Wait()
	if s.driver.Lacks(Namespaces) == "" {
		want := "3" // init, the command, and the shell that counts
		if s.driver.Lacks(Init) != "" {
			want = "2"
		}
		if got, _ := s.execToEnd(running, "set -- /proc/[0-9]*; echo $#", ""); strings.TrimSpace(got) != want {
			s.Errorf("%q processes are in the container, want %s", got, want)
		}
	}
	deadline := time.Now().Add(limit)
	// The suite's own pipes are closed at its end. Go keeps threads, more on a host with more processors.
	for openFiles(s) > before+8+min(2*runtime.NumCPU(), inARow/2) {
		if time.Now().After(deadline) {
			s.Fatalf("%d descriptors are open, and %d were", openFiles(s), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// openFiles counts the descriptors and threads of this process and of its supervisors.
func openFiles(s *suite) (n int) {
	for _, pid := range append(liveChildren(s), fmt.Sprint(os.Getpid())) {
		files, _ := filepath.Glob("/proc/" + pid + "/fd/*")
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*")
		n += len(files) + len(threads)
	}
	return n
}
