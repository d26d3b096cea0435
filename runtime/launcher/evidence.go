package launcher

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/evidence"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file collects the evidence about the failure of a task. It reads the kernel log and the end of the output when
// the task has ended, so an agent that was restarted meanwhile finds the same.

const (
	// kernelPast bounds how old a message of the kernel may be. Collective operations fail up to ten minutes after the
	// GPU that caused it.
	kernelPast = 15 * time.Minute
	// kernelAgain is for how long the messages that were read are used for other tasks that end.
	kernelAgain = 100 * time.Millisecond
)

// kernelLog holds the messages of the kernel log that were read last.
type kernelLog struct {
	mu      sync.Mutex
	at      time.Time
	records []evidence.Record
}

func (l *Launcher) kernelRecords() []evidence.Record {
	if l.o.KernelLog == "" {
		return nil
	}
	k := &l.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) > kernelAgain {
		k.records, k.at = evidence.Log(l.o.KernelLog, clock.BootNs()-int64(kernelPast)), time.Now()
	}
	return k.records
}

// evidence returns the evidence about the end of a task; nil: the task did not fail.
func (t *task) evidence(e *supervisor.Exit) *messages.Evidence {
	if e.Kind == supervisor.Exited && e.Code == 0 {
		return nil
	}
	found := &messages.Evidence{DiskFull: e.NodeFull || !e.Disk && t.diskIsFull()}
	if e.Kind == supervisor.NeverStarted {
		return found
	}
	found.OomScope, found.EndedBy = oomScopes[e.OOMScope], endedBy[e.EndedBy]
	if e.Kind != supervisor.Exited {
		return found
	}
	if e.ByItself || len(t.Gpus) > 0 {
		t.fromKernel(e, found)
	}
	if !e.OOM {
		found.OomScope = 0
	}
	if e.ByItself || e.Disk {
		found.Step = t.lastStep()
		evidence.Printed(t.printed(), found)
	}
	return found
}

var (
	oomScopes = map[string]messages.OomScope{
		"task": messages.OomScope_OOM_SCOPE_TASK, "parent": messages.OomScope_OOM_SCOPE_PARENT,
		"host": messages.OomScope_OOM_SCOPE_HOST,
	}
	endedBy = map[string]messages.EndedBy{
		supervisor.ByHost: messages.EndedBy_ENDED_BY_HOST, supervisor.ByNoContact: messages.EndedBy_ENDED_BY_NO_CONTACT,
	}
)

// diskIsFull reports whether the disk is full, or was when the guard last looked. A failed task may have removed its
// files already.
func (t *task) diskIsFull() bool {
	s, err := spaceOf(t.l.o.Dir)
	if err != nil {
		return false
	}
	free := *t.l.watch.free.Load()
	return min(s.free.Bytes, free.Bytes) < s.size.Bytes/shareLeft ||
		min(s.free.Files, free.Files) < s.size.Files/shareLeft
}

// fromKernel adds the messages of the kernel about the task.
func (t *task) fromKernel(e *supervisor.Exit, to *messages.Evidence) {
	about := evidence.Subject{Cgroup: t.Key.String(), EndedNs: e.EndedNs}
	if about.EndedNs == 0 {
		about.EndedNs = clock.BootNs()
	}
	for _, g := range t.Gpus {
		about.Buses = append(about.Buses, gpu.BusOf(g))
	}
	if state, err := supervisor.ReadState(t.home); err == nil && state != nil {
		about.PID, about.BeganNs = state.PID, state.BeganNs()
	}
	about.Explain(t.l.kernelRecords(), to)
}

// printed returns the end of the error output, or of the output if a task printed no errors.
func (t *task) printed() []byte {
	for _, stream := range []string{supervisor.Stderr, supervisor.Stdout} {
		_, data, err := supervisor.ReadEnd(t.home, stream, 0, evidence.TailBytes)
		text := bytes.TrimSpace(data)
		if err == nil && len(text) > 0 && string(text) != strings.TrimSpace(t.notice()) {
			return data
		}
	}
	return nil
}

// lastStep returns the last step that the task reported; 0: none.
func (t *task) lastStep() int64 {
	p := &t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look(t.Scratch, t.home)
	return max(p.model.Message().GetStep(), 0)
}

// faultOf returns the fault for a task that never ran, and no fault for a task that ran.
func faultOf(e *supervisor.Exit) messages.Fault {
	switch {
	case e.Kind != supervisor.PrepareFailed && e.Kind != supervisor.LaunchFailed:
		return messages.Fault_FAULT_UNSPECIFIED
	case e.Fault == fault.Job:
		return messages.Fault_FAULT_JOB
	case e.Fault == fault.Machine:
		return messages.Fault_FAULT_MACHINE
	}
	return messages.Fault_FAULT_UNKNOWN
}
