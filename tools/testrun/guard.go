package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file ends a run that is stopped. Everything that the tests started ends with the run, and their files are
// removed. Two processes watch each other. The user starts the guard. It adopts every descendant whose parent has
// ended, so that none can escape, and starts the worker, which runs the tests. If the worker is killed, the guard
// cleans up. If the guard is killed, the worker does.

// workerWord is the first argument of the worker.
const workerWord = "worker"

// setChildSubreaper is prctl's PR_SET_CHILD_SUBREAPER.
const setChildSubreaper = 36

// guard runs the tests of a directory in a worker, cleans up after it, and returns the exit code.
func guard(args []string) (int, error) {
	// If that fails, processes that hide their origin are not found.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	l, err := newLeavings()
	if err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGCHLD)
	lives, held, err := os.Pipe() // the worker reads its end as the end of the guard
	if err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	worker, err := syscall.ForkExec(self, append([]string{self, workerWord, l.temp}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, lives.Fd()}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	lives.Close()
	if err != nil {
		return 1, err
	}
	code := watch(worker, signals)
	held.Close()
	l.clean()
	return code, nil
}

// interruptTime is the time that interrupted tests may continue.
const interruptTime = time.Minute

// watch waits for the worker, passes an interrupt on to the tests, and returns the exit code. It returns early if the
// run must stop at once.
func watch(worker int, signals <-chan os.Signal) int {
	parent, look := os.Getppid(), time.NewTicker(time.Second)
	defer look.Stop()
	var late <-chan time.Time
	for {
		if code, ended := reap(worker); ended {
			return code
		}
		select {
		case s := <-signals:
			switch s {
			case os.Interrupt: // the tests end, and the worker prints their progress
				_ = syscall.Kill(-worker, syscall.SIGINT)
				if late == nil {
					late = time.After(interruptTime)
				}
			case syscall.SIGTERM, syscall.SIGHUP:
				fmt.Fprintf(os.Stderr, "testrun: stopped by %s\n", s)
				return 128 + int(s.(syscall.Signal))
			}
		case <-late:
			fmt.Fprintln(os.Stderr, "testrun: the tests did not end")
			return 130
		case <-look.C:
			if os.Getppid() != parent {
				fmt.Fprintln(os.Stderr, "testrun: the process that started the tests has ended")
				return 1
			}
		}
	}
}

// reap collects the exits of all ended children, including adopted ones, and returns the worker's exit.
func reap(worker int) (code int, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case pid <= 0:
			return code, ended
		case pid == worker && status.Signaled():
			fmt.Fprintf(os.Stderr, "testrun: the worker was killed by signal %d (%s)\n", status.Signal(), status.Signal())
			code, ended = 128+int(status.Signal()), true
		case pid == worker:
			code, ended = status.ExitStatus(), true
		}
	}
}

// work is the worker. It runs the tests, and ends with everything they started if the guard is killed.
func work(temp string, args []string) int {
	// a user who interrupts the tests wants to see their progress
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	syscall.CloseOnExec(3)
	l := leavingsIn(temp)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "guard"))
		fmt.Fprintln(os.Stderr, "testrun: the guard was killed")
		l.clean()
		os.Exit(1)
	}()
	ok, err := tested(l, args[0], args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if !ok {
		return 1
	}
	return 0
}

// clean ends the processes of the tests and removes their files.
func (l *leavings) clean() {
	for range 100 { // a process may start another one just before it is ended
		if l.endAll() == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
		reap(0)
	}
	mounts := l.mounts()
	for tries := 0; len(mounts) > 0 && tries < 10; tries++ { // one may be mounted on another
		slices.Reverse(mounts) // nested mounts come first
		for _, path := range mounts {
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
		}
		mounts = l.mounts()
	}
	l.wait = min(l.wait, 2*time.Second)
	left := l.left()
	slices.Reverse(left)
	for _, name := range left {
		what, path, _ := strings.Cut(name, " ")
		switch what {
		case "network":
			_ = syscall.Unmount(filepath.Join("/run/netns", path), syscall.MNT_DETACH)
			_ = os.Remove(filepath.Join("/run/netns", path))
		case "group":
			_ = syscall.Rmdir(filepath.Join(l.root, "sys/fs/cgroup", path))
		}
	}
	if len(mounts) > 0 {
		fmt.Fprintf(os.Stderr, "testrun: %s stays, because %q cannot be unmounted\n", l.temp, mounts)
		return // removing it would remove the content of the mount
	}
	_ = filepath.WalkDir(l.temp, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700) // a test may have removed the permission
		}
		return nil
	})
	_ = os.RemoveAll(l.temp)
}

// endAll kills the processes below this one, and all whose environment or command names the temporary directory. It
// returns their number.
func (l *leavings) endAll() (n int) {
	for _, pid := range l.ours() {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// ours returns the processes of this run, except this one and its ancestors.
func (l *leavings) ours() (pids []int) {
	parents, named := map[int]int{}, map[int]bool{}
	all, _ := filepath.Glob(filepath.Join(l.root, "proc/[0-9]*"))
	for _, dir := range all {
		var pid, parent int
		var state byte
		text, _ := os.ReadFile(filepath.Join(dir, "stat"))
		end := strings.LastIndexByte(string(text), ')')
		if end < 0 {
			continue
		}
		_, _ = fmt.Sscan(filepath.Base(dir), &pid)
		if _, err := fmt.Sscanf(string(text[end+1:]), " %c %d", &state, &parent); err != nil || state == 'Z' {
			continue
		}
		parents[pid] = parent
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		named[pid] = strings.Contains(string(environment), "="+l.temp) || strings.Contains(string(command), l.temp+"/")
	}
	above := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !above[pid]; pid = parents[pid] {
		above[pid] = true
	}
	for pid := range parents {
		if !above[pid] && (named[pid] || descends(pid, os.Getpid(), parents)) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// descends reports whether a process descends from another.
func descends(pid, from int, parents map[int]int) bool {
	for steps := 0; pid > 1 && steps < len(parents); steps++ {
		if pid = parents[pid]; pid == from {
			return true
		}
	}
	return false
}

// mounts returns the mounts in the temporary directory, in order.
func (l *leavings) mounts() (paths []string) {
	for name := range l.look(false) {
		if path, is := strings.CutPrefix(name, "mount "); is && below(path, l.temp) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// paced measures how slow this host is, for all tests of the run, and gives packages proportionally more time.
func paced(dir string, command []string) []string {
	if os.Getenv(paceVariable) == "" {
		out, _ := exec.Command("go", "-C", dir, "run", "./test/able/pace/measure").Output()
		_ = os.Setenv(paceVariable, strings.TrimSpace(string(out)))
	}
	factor, err := strconv.Atoi(os.Getenv(paceVariable))
	if err != nil {
		return command
	}
	if factor > 1 {
		fmt.Fprintf(os.Stderr, "testrun: this host is slow, so all deadlines are %d times longer\n", factor)
	}
	command = slices.Clone(command)
	if at := slices.Index(command, "-timeout"); at >= 0 && at+1 < len(command) {
		if base, err := time.ParseDuration(command[at+1]); err == nil {
			command[at+1] = limitOf(base, factor)
		}
	} else if at := slices.Index(command, "test"); at >= 0 {
		command = slices.Insert(command, at+1, "-timeout", limitOf(packageTime, factor))
	}
	return command
}

// limitOf returns the time limit of a package on a host that is slower by a factor.
func limitOf(base time.Duration, factor int) string {
	return min(base*time.Duration(factor), max(base, mostTime)).String()
}

// paceVariable passes the factor to the tests, which read it in test/able/pace.
const paceVariable = "SYNAPSE_TEST_PACE"

const (
	// packageTime is the time limit for the tests of one package on a usual host.
	packageTime = 15 * time.Minute
	// mostTime is the limit on any host. A test that hangs must not cost an hour.
	mostTime = 30 * time.Minute
)
