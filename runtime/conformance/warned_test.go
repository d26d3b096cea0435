//go:build linux

// This file tests the warning before a task's end, with every driver.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestWarned checks that a task finds the complete notice at $SYNAPSE_NOTICE before it gets the signal. A repeated
// warning of the same end sends no second signal, also from a later agent. Another end sends a signal again. A
// withdrawn end removes the notice. No link of the task is followed.
func TestWarned(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, _ string) {
		p := s.warned(t, `trap 'n=$((n+1)); sed -n 1p "$SYNAPSE_NOTICE"; sed -n 2p "$SYNAPSE_NOTICE"; echo told $n' USR1
			cd "$(dirname "$SYNAPSE_NOTICE")"; ls "$SYNAPSE_NOTICE" 2>/dev/null
			ln -s /etc/hostname .synapse-notice; ln -s /etc/hostname "$SYNAPSE_NOTICE"
			echo ready; while :; do sleep 0.01; done`)
		limit := &messages.WarnTask{Cause: messages.Cause_CAUSE_TIME_LIMIT, LeftMs: 90_000, Of: 3_600_000}
		p.warn(t, limit)
		want := "ready\nreason=time-limit\nleft_seconds=90\ntold 1\n"
		until(t, "it was not signalled", func() bool { return p.said() == want })
		p.warn(t, limit)
		s.restart(t, func() {})
		p.warn(t, limit)
		p.warn(t, &messages.WarnTask{Cause: messages.Cause_CAUSE_DRAINED, LeftMs: 5_999, Of: 7})
		want += "reason=drained\nleft_seconds=5\ntold 2\n"
		until(t, "the drain was not signalled once", func() bool { return p.said() == want })
		notice := filepath.Join(s.dir, "scratch", p.id.Key().String(), "synapse-notice")
		if text, err := os.ReadFile(notice); err != nil || !strings.Contains(string(text), "\nends_unix_seconds=1") {
			t.Errorf("%q, %v", text, err)
		}
		p.warn(t, &messages.WarnTask{})
		if _, err := os.Lstat(notice); !os.IsNotExist(err) {
			t.Errorf("the notice is still there: %v", err)
		}
		if p.said() != want {
			t.Errorf("it said %q", p.said())
		}
	})
}

// warn sends a warning until it is answered, like a leader. There is no answer while a later agent looks for the
// supervisor.
func (p *staged) warn(t *testing.T, m *messages.WarnTask) {
	t.Helper()
	m.Id, m.Signal, m.Number = p.id, 10, p.told.Load()+1
	until(t, "it is not answered", func() bool {
		p.of.launcher.Tell(m, p.of.pid)
		return p.told.Load() == m.Number
	})
}

// warned starts a task with warnings, and waits until it prints "ready".
func (s *stack) warned(t *testing.T, script string) *staged {
	t.Helper()
	s.besides = func(j *messages.JobSpec) {
		j.User, j.Warn = "nobody", &messages.WarnSpec{Signal: 10, AheadMs: 1}
	}
	defer func() { s.besides = nil }()
	return s.begun(t, script)
}

// TestWarnedEnd checks that a task that exits after the warning is judged by its exit code. A task without a handler
// ends by the signal if an init sends it to the command.
func TestWarnedEnd(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, _ string) {
		ends := map[string]int32{
			"trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done":  0,
			"trap 'exit 75' USR1; echo ready; while :; do sleep 0.01; done": 75,
		}
		if s.Lacks(Init) == "" {
			ends["echo ready; exec sleep 1000"] = 128 + 10
		}
		for script, want := range ends {
			p := s.warned(t, script)
			p.of.launcher.Tell(&messages.WarnTask{
				Id: p.id, Number: 1, Signal: 10, Cause: messages.Cause_CAUSE_TIME_LIMIT, LeftMs: 1000, Of: 1,
			}, p.of.pid)
			await(t, p)
			if p.exit.Code != want || !p.exit.ByItself {
				t.Errorf("%s: %v", script, p.exit)
			}
		}
	})
}
