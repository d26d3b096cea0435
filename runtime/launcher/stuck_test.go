package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ports "github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file tests the log lines about a task that does not exit.

// heard is a log that keeps its lines.
type heard struct {
	ports.NoLog
	mu    sync.Mutex
	lines []string
}

func (h *heard) Info(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) has(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.lines, "\n"), text)
}

// TestStuckTask imitates a task that hangs with a stopped supervisor. The log reports the task, no report says that it
// is gone, and no new task of its key is started.
func TestStuckTask(t *testing.T) {
	log := &heard{}
	dir := room(t)
	r := newRig(t, dir, func(o *launcher.Options) { o.Log, o.StuckAfter = log, 50*time.Millisecond })
	r.run(0, script("echo ready; sleep 60"))
	take[*messages.TaskStarted](r, 0)
	home := dir + "/tasks/" + id(0).Key().String()
	eventually(t, "it says nothing", func() bool {
		logs, _ := filepath.Glob(home + "/stdout*")
		return slices.ContainsFunc(logs, func(log string) bool {
			text, _ := os.ReadFile(log)
			return string(text) == "ready\n"
		})
	})
	state, err := supervisor.ReadState(home)
	if err != nil || state == nil {
		t.Fatalf("%+v, %v", state, err)
	}
	leader, _ := supervisor.ReadProcess(state.PID)
	keeper, _ := supervisor.ReadProcess(leader.Parent)
	if err := keeper.Send(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = keeper.Send(unix.SIGCONT) }()
	r.tell(&messages.StopTask{Id: id(0), Signal: 9})
	eventually(t, "it is not said that it is stuck", func() bool { return log.has("is stuck") })
	r.tell(startOf(0, script("echo again")))
	r.tell(&messages.ListTasks{})
	if list := take[*messages.TaskList](r, -1).Tasks; len(list) != 1 || list[0].Exit != nil || !list[0].Started {
		t.Errorf("listed as %v", list)
	}
	if err := keeper.Send(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if e := r.gone(0); e.Code != 137 {
		t.Errorf("%v", e)
	}
	if out := r.read(0, false); out != "ready\n" {
		t.Errorf("it said %q", out)
	}
}
