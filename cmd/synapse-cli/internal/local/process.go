//go:build linux

// Package local runs a cluster of real processes on this host: a scheduler and its nodes. It starts them, handles
// their output, and makes sure that no process remains at the end, including the ones that they started.
package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/yi-json/synapse/messages"
)

// lastLines is the number of last lines that are kept for an error report.
const lastLines = 20

// process is one child in a separate process group. Ctrl-C at the terminal therefore reaches only this process,
// which ends the children in order.
type process struct {
	name   string
	cmd    *exec.Cmd
	output *output
	exited chan struct{} // closed after the end, when err is set
	err    error
}

// forker starts all children from one thread that lives as long as they do. The kernel kills a child when the
// thread that created it ends, and Go may end a thread at any time.
type forker struct{ work chan func() }

func newForker() *forker {
	f := &forker{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for do := range f.work {
			do()
		}
	}()
	return f
}

func (f *forker) do(work func()) {
	done := make(chan struct{})
	f.work <- func() { defer close(done); work() }
	<-done
}

func (f *forker) end() { close(f.work) }

// start starts a program that the kernel kills if this process is killed.
func (f *forker) start(name string, argv, env []string, out *output) (*process, error) {
	p := &process{name: name, output: out, exited: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = time.Second // a descendant may keep the output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var err error
	f.do(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		out.flush()
		close(p.exited)
	}()
	return p, nil
}

// signal sends a signal to the whole process group.
func (p *process) signal(s syscall.Signal) {
	if !p.gone() {
		// The process may have just ended. Then the error is harmless.
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// how returns a text about how the process ended.
func (p *process) how() string {
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		return "ended"
	case errors.As(p.err, &exit):
		return "ended: " + exit.Error()
	}
	return "ended: " + p.err.Error()
}

// terminal prints the lines of all processes, one at a time.
type terminal struct {
	mu     sync.Mutex
	w      io.Writer // nil: nothing is printed
	colour bool
	width  int // of the longest name
}

// output writes the output of one process to its log, and line by line to the terminal.
type output struct {
	name     string
	colour   string
	log      io.WriteCloser
	terminal *terminal

	mu      sync.Mutex
	pending []byte
	last    []string
}

// maxLine limits the stored part of an incomplete line.
const maxLine = 64 << 10

// Write never fails, because a full disk or a closed terminal must not end a process.
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.log.Write(data)
	o.pending = append(o.pending, data...)
	for {
		line, rest, whole := bytes.Cut(o.pending, []byte("\n"))
		if !whole && len(o.pending) < maxLine {
			return len(data), nil
		}
		o.line(string(line))
		o.pending = append([]byte(nil), rest...)
	}
}

func (o *output) line(s string) {
	s = strings.TrimRight(s, "\r")
	if o.last = append(o.last, s); len(o.last) > lastLines {
		o.last = o.last[1:]
	}
	o.terminal.line(o.name, o.colour, s)
}

// flush prints an incomplete last line, and closes the log.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) > 0 {
		o.line(string(o.pending))
		o.pending = nil
	}
	_ = o.log.Close()
}

func (o *output) tail() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.last...)
}

func (t *terminal) line(name, colour, s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.w == nil {
		return
	}
	label := fmt.Sprintf("%-*s |", t.width, name)
	if t.colour {
		label = colour + label + "\x1b[0m"
	}
	_, _ = fmt.Fprintf(t.w, "%s %s\n", label, messages.Lines(s)) // only the label is coloured, not the process's output
}

// logFile opens the log for the complete output of a process.
func logFile(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
