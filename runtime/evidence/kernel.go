// Package evidence collects what a node knows about a task's failure: lines of the kernel log, driver errors, and the
// end of the task's output with the last Python traceback. Package verdict decides what the evidence means.
package evidence

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/runtime/gpu"
)

// This file reads the kernel log. It reads the kernel's own messages only, because programs can write to the log too.

const (
	// maxRecords bounds the messages that are read. The kernel keeps less by default.
	maxRecords = 32_768
	maxRecord  = 16 << 10
	// near is the time before a task's end in which a message about the hardware can explain the end.
	near = time.Minute
)

// Record is one message of the kernel.
type Record struct {
	AtNs int64 // time since the boot
	Text string
	raw  string
}

// Log returns the kernel's messages of a log since a time. It returns nil if the log cannot be read.
func Log(path string, sinceNs int64) (all []Record) {
	log, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(log)
	buffer := make([]byte, maxRecord)
	for range maxRecords {
		n, err := unix.Read(log, buffer) // one message from the device, or several from a file
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) {
			continue // the kernel overwrote the oldest messages meanwhile
		}
		if err != nil || n <= 0 {
			break
		}
		for line := range strings.Lines(string(buffer[:n])) {
			if r, ok := parse(line); ok && r.AtNs >= sinceNs {
				all = append(all, r)
			}
		}
	}
	return all
}

// parse parses a record: numbers, a semicolon and a text. The first number contains the facility, which is 0 for the
// kernel. The third number is the time in microseconds.
func parse(line string) (Record, bool) {
	head, text, found := strings.Cut(strings.TrimRight(line, "\n"), ";")
	parts := strings.Split(head, ",")
	if !found || len(parts) < 3 {
		return Record{}, false
	}
	priority, err := strconv.Atoi(parts[0])
	at, wrong := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || wrong != nil || priority>>3 != 0 {
		return Record{}, false
	}
	return Record{AtNs: at * int64(time.Microsecond), Text: text, raw: line}, true
}

// Subject describes the task whose failure is explained.
type Subject struct {
	PID     int    // of its first process; 0: unknown
	Cgroup  string // beginning of the name of its cgroups; empty: none
	Buses   []string
	BeganNs int64 // when it began …
	EndedNs int64 // … and ended, since the boot
}

// Explain adds the kernel's messages about a task to its evidence.
func (s Subject) Explain(log []Record, to *messages.Evidence) {
	line, weight := "", 0
	for i, r := range log {
		if r.AtNs < s.BeganNs-int64(time.Second) {
			continue
		}
		s.addXid(r, to)
		w := s.weigh(log, i, to)
		if w > 0 && w >= weight {
			line, weight = r.Text, w
		}
	}
	if line != "" {
		to.Kernel = Line(line)
	}
}

// weigh returns how well a message explains the end of the task; 0: it is not about the task.
func (s Subject) weigh(log []Record, i int, to *messages.Evidence) int {
	r := log[i]
	switch scope, mine := s.oom(r.Text); {
	case mine:
		to.OomScope = scope
		return 3
	case i > 0 && strings.Contains(r.Text, "Killed process "):
		if _, mine := s.oom(log[i-1].Text); mine {
			return 4 // it names the process and its memory
		}
	case s.PID > 0 && strings.Contains(r.Text, "["+strconv.Itoa(s.PID)+"]"),
		s.PID > 0 && strings.Contains(r.Text, ":"+strconv.Itoa(s.PID)+" "):
		return 2
	}
	if s.EndedNs-r.AtNs > int64(near) {
		return 0
	}
	switch verdict.Kernel(r.Text) {
	case messages.FailureClass_FAILURE_CLASS_UNSPECIFIED, messages.FailureClass_FAILURE_CLASS_GPU:
		return 0
	}
	return 1
}

// oom parses the kernel's message about an out-of-memory kill, and reports whether it killed a process of the task.
func (s Subject) oom(text string) (scope messages.OomScope, mine bool) {
	rest, found := strings.CutPrefix(text, "oom-kill:")
	if !found {
		return 0, false
	}
	fields := map[string]string{}
	global := false
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(part, "=")
		fields[key] = value
		global = global || key == "global_oom"
	}
	killed := fields["task_memcg"]
	mine = s.within(killed) || s.PID > 0 && fields["pid"] == strconv.Itoa(s.PID)
	limit, limited := fields["oom_memcg"]
	switch {
	case global || !limited:
		return messages.OomScope_OOM_SCOPE_HOST, mine
	case s.within(limit) || limit == killed:
		return messages.OomScope_OOM_SCOPE_TASK, mine
	}
	return messages.OomScope_OOM_SCOPE_PARENT, mine
}

// within reports whether a cgroup is one of the task, or below one.
func (s Subject) within(group string) bool {
	return s.Cgroup != "" && strings.Contains(group, "/"+s.Cgroup+"-")
}

// maxXids bounds the driver errors of a task.
const maxXids = 16

func (s Subject) addXid(r Record, to *messages.Evidence) {
	bus, number, ok := gpu.XidOf(r.raw)
	if ok && slices.Contains(s.Buses, bus) && !slices.Contains(to.Xids, int32(number)) && len(to.Xids) < maxXids {
		to.Xids = append(to.Xids, int32(number))
	}
}

// Line returns a text as one printable line of bounded length.
func Line(text string) string {
	text = messages.AsText(messages.OneLine(strings.TrimSpace(text)))
	if len(text) > messages.MaxEvidenceBytes {
		text = strings.ToValidUTF8(text[:messages.MaxEvidenceBytes], "")
	}
	return text
}
