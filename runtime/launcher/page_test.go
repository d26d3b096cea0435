package launcher

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/serial"
	"github.com/yi-json/synapse/topology"
)

// TestPageBeforeTheEnd checks a task that writes its last lines and ends while a page of its output is read. The page
// contains these lines, or it is not marked as the end. The task does both at the moment when page checks whether it
// has ended.
func TestPageBeforeTheEnd(t *testing.T) {
	l := &Launcher{
		o:     Options{Dir: t.TempDir(), Log: actors.NoLog{}, Drivers: []Driver{nil}},
		tasks: map[topology.TaskKey]*task{}, done: make(chan struct{}),
	}
	id := &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: 1}}
	task := l.newTask(id.Key())
	task.phase = phaseRunning
	output := filepath.Join(task.home, "stdout-0000000000000000.log")
	task.line = serial.Line{Go: func(work func()) bool {
		if err := os.WriteFile(output, []byte("first\nlast\n"), 0o600); err != nil {
			t.Error(err)
		}
		task.phase = phaseGone
		go work()
		return true
	}}
	l.tasks[id.Key()] = task
	if err := os.MkdirAll(task.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(output, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for over := false; !over; {
		got := l.page(&messages.LogsTask{Id: id, Offset: int64(len(text)), LimitBytes: 100})
		text, over = append(text, got.Data...), got.End
	}
	if string(text) != "first\nlast\n" {
		t.Errorf("a reader that reads to the end has %q", text)
	}
}

// TestPagesOfWhatIsNotThere checks that removed output and future output are both empty, and begin at the requested
// offset. Only removed output is an end.
func TestPagesOfWhatIsNotThere(t *testing.T) {
	l := &Launcher{
		o:     Options{Dir: t.TempDir(), Log: actors.NoLog{}, Drivers: []Driver{nil}},
		tasks: map[topology.TaskKey]*task{}, done: make(chan struct{}),
	}
	id := &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: 1}}
	ask := func() *messages.TaskLogs { return l.page(&messages.LogsTask{Id: id, Offset: 7, LimitBytes: 100}) }
	if got := ask(); !got.End || len(got.Data) > 0 || got.Offset != 7 {
		t.Errorf("of an unknown task: %v", got)
	}
	task := l.newTask(id.Key())
	task.phase = phaseRunning
	task.line = serial.Line{Go: func(work func()) bool { go work(); return true }}
	l.tasks[id.Key()] = task
	if err := os.MkdirAll(task.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got.End || len(got.Data) > 0 || got.Offset != 7 {
		t.Errorf("of a task that runs: %v", got)
	}
}
