//go:build linux

// This file has the cases of a task's end: exact codes, signals and orphans.
package conformance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var lifeCases = []testCase{
	{"exit code is exact", nil, exitCodes},
	{"command not found is 127", []Trait{ExecCodes}, notFound},
	{"command not executable is 126", []Trait{Rootfs, ExecCodes}, notExecutable},
	{"missing rootfs is 125", []Trait{Rootfs, SetupCode}, missingRootfs},
	{"TERM ends a command without a handler", []Trait{Init}, termEnds},
	{"TERM ignored, KILL ends", nil, termIgnored},
	{"signals reach the command", nil, signalsReach},
	{"self-SIGKILL is not OOM", []Trait{Init}, selfKill},
	{"double-forked grandchildren die", []Trait{Rootfs, Namespaces, OwnDev}, grandchildren},
	{"zombies are reaped", []Trait{Rootfs, Namespaces, Init}, zombies},
	{"stdout reader gone", []Trait{Init, Handed}, readerGone},
	{"stdout closed is stdout ended", []Trait{Init, Handed, Streams}, stdoutClosed},
	{"no inherited descriptor", nil, noDescriptor},
	{"arguments and environment arrive unmangled", nil, unmangled},
}

func exitCodes(s *suite) {
	for _, code := range []int{0, 1, 7, 42, 125, 255} {
		if got := s.code(s.sh(fmt.Sprintf("exit %d", code))); got != code {
			s.Errorf("exit %d was reported as %d", code, got)
		}
	}
}

func notFound(s *suite) {
	for _, command := range []string{"/bin/nothing-here", "nothing-here", "/bin/no-such-script"} {
		write(s, filepath.Join(s.rootfs, "bin/no-such-script"), "#!/bin/no-interpreter\n", 0o755)
		if got := s.code(Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{command}}); got != 127 {
			s.Errorf("%s was reported as %d", command, got)
		}
	}
}

func notExecutable(s *suite) {
	write(s, filepath.Join(s.rootfs, "bin/plain"), "#!/bin/sh\n", 0o644)
	write(s, filepath.Join(s.rootfs, "bin/torn"), "\x7fELF\x02\x01\x01 and nothing behind it", 0o755)
	for _, command := range []string{"/bin/plain", "/bin/torn", "/etc"} {
		if got := s.code(Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{command}}); got != 126 {
			s.Errorf("%s was reported as %d", command, got)
		}
	}
}

func missingRootfs(s *suite) {
	for _, rootfs := range []string{filepath.Join(s.rootfs, "missing"), filepath.Join(s.rootfs, "bin/busybox")} {
		if got := s.code(Task{ID: NewID(), Rootfs: rootfs, Command: []string{"/bin/true"}}); got != 125 {
			s.Errorf("rootfs %s was reported as %d", rootfs, got)
		}
	}
}

func termEnds(s *suite) {
	running := s.ready(s.sh("echo ready; exec sleep 1000"))
	if err := running.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	if got := await(s, running); got.Code != 128+15 || got.OOM {
		s.Errorf("ended with %+v", got)
	}
}

func termIgnored(s *suite) {
	running := s.ready(s.sh("trap '' TERM; echo ready; while :; do sleep 1; done"))
	if err := running.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	select {
	case <-running.Done():
		s.Fatal("a task that ignores TERM ended of it")
	case <-time.After(200 * time.Millisecond):
	}
	if err := running.Kill(); err != nil {
		s.Fatal(err)
	}
	if got := await(s, running); got.Code != 128+9 || got.OOM {
		s.Errorf("ended with %+v", got)
	}
}

func signalsReach(s *suite) {
	for _, signal := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGQUIT,
	} {
		name := strings.TrimPrefix(signalNames[signal], "SIG")
		running := s.ready(s.sh("trap 'exit 33' " + name + "; echo ready; while :; do sleep 0.01; done"))
		if err := running.Signal(signal); err != nil {
			s.Fatal(err)
		}
		if got := await(s, running); got.Code != 33 {
			s.Errorf("%s ended the task with %+v", name, got)
		}
	}
}

var signalNames = map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP",
	syscall.SIGUSR1: "USR1", syscall.SIGQUIT: "QUIT"}

func selfKill(s *suite) {
	running := s.start(s.sh("kill -KILL $$"))
	if got := await(s, running); got.Code != 128+9 || got.OOM {
		s.Errorf("ended with %+v", got)
	}
}

// grandchildren checks that a process that left its session and its parent is killed. Until then it writes a file on
// the host.
func grandchildren(s *suite) {
	shared := s.TempDir()
	task := s.sh("(setsid sh -c 'while :; do echo x >> /shared/alive; sleep 0.01; done' &) ; while ! test -s " +
		"/shared/alive; do sleep 0.01; done; exit 3")
	task.Mounts = map[string]string{"/shared": shared}
	if got := await(s, s.start(task)); got.Code != 3 {
		s.Fatalf("ended with %+v", got)
	}
	size := func() int64 {
		stat, err := os.Stat(filepath.Join(shared, "alive"))
		if err != nil {
			s.Fatal(err)
		}
		return stat.Size()
	}
	before := size()
	time.Sleep(100 * time.Millisecond) // ten of its rounds, if it still lived
	if after := size(); after != before {
		s.Errorf("a grandchild went on writing after the task was gone: %d bytes, then %d", before, after)
	}
}

func zombies(s *suite) {
	// Each round leaves an orphan that ends at once. Without a reaper, it would stay in /proc as Z.
	text := s.output(s.sh("i=0; while test $i -lt 20; do (true &) ; i=$((i+1)); done; " +
		"n=0; while grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do n=$((n+1)); test $n -gt 200 && { echo zombies; " +
		"exit 0; }; sleep 0.01; done; echo none"))
	if text != "none\n" {
		s.Errorf("the task saw %q", text)
	}
}

func readerGone(s *suite) {
	reader, writer, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	task := Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{"/bin/yes"}, Stdout: writer}
	running := s.start(task)
	writer.Close()
	reader.Close()
	if got := await(s, running); got.Code != 128+13 && got.Code != 1 { // killed by SIGPIPE, or the write failed
		s.Errorf("a writer without a reader ended with %+v", got)
	}
}

// stdoutClosed checks that a task that closes its output and continues does not delay its reader.
func stdoutClosed(s *suite) {
	reader, writer, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	defer reader.Close()
	task := s.sh("echo last; exec sleep 1000 >/dev/null 2>&1")
	task.Stdout = writer
	s.start(task)
	writer.Close()
	_ = reader.SetReadDeadline(time.Now().Add(limit))
	if text, err := io.ReadAll(reader); err != nil || string(text) != "last\n" {
		s.Errorf("read %q, then %v", text, err)
	}
}

func noDescriptor(s *suite) {
	// A descriptor that every exec inherits, as from a careless starter.
	leak, err := os.Open("/etc/hostname")
	if err != nil {
		leak, err = os.Open("/proc/self/status")
	}
	if err != nil {
		s.Fatal(err)
	}
	defer leak.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, leak.Fd(), syscall.F_SETFD, 0); errno != 0 {
		s.Fatal(errno)
	}
	text := s.output(s.sh("exec ls -l /proc/self/fd")) // one descriptor is the directory that ls reads
	for line := range strings.Lines(text) {
		before, _, isLink := strings.Cut(line, " -> ")
		if !isLink {
			continue
		}
		number := before[strings.LastIndexByte(before, ' ')+1:]
		if number != "0" && number != "1" && number != "2" && !strings.Contains(line, "/proc/") {
			s.Errorf("the task has descriptor %s", line)
		}
	}
}

func unmangled(s *suite) {
	words := []string{"", "a b", "--", "-c", "$HOME", "'\"", "new\nline", "ü\t", "*"}
	task := Task{ID: NewID(), Rootfs: s.rootfs, Env: []string{"ODD=a b\n$x=", "EMPTY="},
		Command: append([]string{"/bin/sh", "-c", `printf '<%s>' "$ODD" "$EMPTY" "$@"`, "name"}, words...)}
	want := "<a b\n$x=><>"
	for _, word := range words {
		want += "<" + word + ">"
	}
	if got := s.output(task); got != want {
		s.Errorf("got  %q\nwant %q", got, want)
	}
}
