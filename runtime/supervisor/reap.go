package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This file owns the evidence: how the command ended, that no descendant is left,
// and what the cgroup tells of both.

// death is how the command itself ended.
type death struct {
	status syscall.WaitStatus
	peak   int64
}

// reap waits for everything. We are the subreaper, so whatever a task leaves
// behind becomes our child; when the kernel says that we have none, no
// descendant exists. No list of processes could say that.
func (k *keeper) reap() {
	const all = 0x40000000 // __WALL: those that end without a SIGCHLD too
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, all, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			close(k.allGone)
			return
		case pid == k.child.pid && (status.Exited() || status.Signaled()):
			k.ended <- death{status: status, peak: usage.Maxrss << 10}
		}
	}
}

// verdict is the exit as everything known has it.
func (k *keeper) verdict() *Exit {
	exit := &Exit{Kind: Exited, Detail: k.detail, OOM: k.oom}
	for _, w := range k.logs {
		exit.DroppedLogBytes += w.dropped
	}
	d := k.death
	switch {
	case d == nil: // it cannot be: the command was our child
		exit.Kind, exit.Detail = Lost, "its end was not seen"
		return exit
	case d.status.Signaled():
		exit.Signal = int(d.status.Signal())
		exit.Code = 128 + exit.Signal
	default:
		exit.Code = d.status.ExitStatus()
	}
	exit.PeakMemoryBytes = d.peak
	if k.spec.StatusFD {
		k.ownWord(exit)
	}
	return exit
}

// ownWord lets a command that runs a container say how the task inside ended. One
// that never said that it started, and ends with 125, could not set it up: that
// is never the user's fault.
func (k *keeper) ownWord(exit *Exit) {
	if s := k.reported; s != nil {
		exit.Code, exit.Signal, exit.OOM = s.Code, s.Signal, s.OOM || k.oom
		// What we killed was killed by us, whatever it looked like from in there.
		if exit.Detail == "" && (k.killedAt.IsZero() || s.OOM) {
			exit.Detail = s.Reason
		}
		if s.Usage.PeakMemoryBytes > 0 {
			exit.PeakMemoryBytes = s.Usage.PeakMemoryBytes
		}
	}
	if k.started {
		return
	}
	if exit.Code == codeSetUp {
		exit.Kind = LaunchFailed
	}
	if exit.Detail == "" && exit.Code >= codeSetUp && exit.Code <= codeNotFound {
		exit.Detail = lastLine(".", Stderr)
	}
}

// statusEvent is one line of a command that tells how far it is.
type statusEvent struct {
	Event  string `json:"event"` // created, started, oom, exited
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
	OOM    bool   `json:"oom"`
	Reason string `json:"reason"`
	Usage  struct {
		PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	} `json:"usage"`
}

func readStatus(file *os.File, out chan<- statusEvent) {
	defer close(out)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var s statusEvent
		if json.Unmarshal(lines.Bytes(), &s) == nil {
			out <- s
		}
	}
}

func (k *keeper) onStatus(s statusEvent) {
	switch s.Event {
	case "started":
		k.becomeStarted()
	case "oom":
		k.oom = true
	case "exited":
		k.reported = &s
	}
}

// readCgroup takes what the leaf knows of the task, and removes it.
func (k *keeper) readCgroup(exit *Exit) {
	if n := CgroupNumber(k.spec.Cgroup, "memory.peak", ""); n > 0 {
		exit.PeakMemoryBytes = n
	}
	if CgroupNumber(k.spec.Cgroup, "memory.events", "oom_kill") > 0 {
		exit.OOM = true
	}
	_ = os.Remove(k.spec.Cgroup)
}

// CgroupNumber reads one number of a cgroup's file, or of the line that begins
// with key; 0 when it is not there.
func CgroupNumber(cgroup, file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(cgroup, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		value := strings.TrimSpace(line)
		if key != "" {
			name, rest, _ := strings.Cut(value, " ")
			if name != key {
				continue
			}
			value = rest
		}
		n, _ := strconv.ParseInt(value, 10, 64)
		return n
	}
	return 0
}

// copyLogs keeps both streams. The supervisor owns the pipes, so that the agent's
// end does not end the task with a broken one.
func (k *keeper) copyLogs() {
	var copies sync.WaitGroup
	for i, source := range []*os.File{k.child.stdout, k.child.stderr} {
		w := &logWriter{dir: ".", stream: [2]string{Stdout, Stderr}[i], segment: k.spec.SegmentBytes, keep: k.spec.Segments}
		if w.segment <= 0 {
			w.segment = defaultSegmentBytes
		}
		if w.keep <= 0 {
			w.keep = defaultSegments
		}
		k.logs[i] = w
		copies.Go(func() {
			// Not io.Copy, which would have the kernel splice, and a full disk end the copy.
			buffer := make([]byte, 16<<10)
			for {
				n, err := source.Read(buffer)
				_, _ = w.Write(buffer[:n])
				if err != nil {
					return
				}
			}
		})
	}
	go func() {
		copies.Wait()
		close(k.drained)
	}()
}

// closeLogs waits for the last of the output. Every process that could write has
// gone, unless one passed its end of the pipe to a stranger.
func (k *keeper) closeLogs() {
	for _, f := range []*os.File{k.child.stdout, k.child.stderr} {
		_ = f.SetReadDeadline(time.Now().Add(drainPatience))
	}
	<-k.drained
	if k.status != nil { // what was said last is still on the way
		_ = k.child.status.SetReadDeadline(time.Now().Add(drainPatience))
		for s := range k.status {
			k.onStatus(s)
		}
	}
}

// lastLine is the end of a stream, for a sentence about what went wrong.
func lastLine(dir, stream string) string {
	segments, err := listSegments(dir, stream)
	if err != nil || len(segments) == 0 {
		return ""
	}
	last := segments[len(segments)-1]
	data, err := readPart(filepath.Join(dir, segmentName(stream, last)), 0, 4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
