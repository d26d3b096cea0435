//go:build linux

// What a task is told ahead of its end, in every driver.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestWarned: a task of a job that asks for it finds the notice at $SYNAPSE_NOTICE, whole, by the time that the signal
// reaches it; said again for the same end it is not signalled a second time, not by a later agent either; another end
// signals again, and one that is taken back takes the notice away. Nothing that the task has put in the way is
// followed.
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

// warn has the launcher tell a task, and says it until it is answered, as a leader does: it is not while a later agent
// is looking for the supervisor.
func (p *staged) warn(t *testing.T, m *messages.WarnTask) {
	t.Helper()
	m.Id, m.Signal, m.Number = p.id, 10, p.told.Load()+1
	until(t, "it is not answered", func() bool {
		p.of.launcher.Tell(m, p.of.pid)
		return p.told.Load() == m.Number
	})
}

// warned starts a task that is told of its end, and waits until it said "ready".
func (s *stack) warned(t *testing.T, script string) *staged {
	t.Helper()
	s.besides = func(j *messages.JobSpec) {
		j.User, j.Warn = "nobody", &messages.WarnSpec{Signal: 10, AheadMs: 1}
	}
	defer func() { s.besides = nil }()
	return s.begun(t, script)
}

// TestWarnedEnd: a task that exits upon the warning is judged by its exit code, and one that knows no handler ends by
// the signal, as by any other, where an init sends it to the command.
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
