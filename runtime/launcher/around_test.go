package launcher_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hook"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/procgroup"
)

// hooks holds a prolog and an epilog that write down their arguments.
type hooks struct {
	t      *testing.T
	dir    string
	failed chan bool
}

func newHooks(t *testing.T) *hooks { return &hooks{t, t.TempDir(), make(chan bool, 16)} }

// program returns the prolog or the epilog as a script of this text.
func (h *hooks) program(text string) procgroup.Program {
	h.t.Helper()
	file, err := os.CreateTemp(h.dir, "hook")
	if err == nil {
		_, err = file.WriteString("#!/bin/sh\ncd " + h.dir + "\n" + text + "\n")
	}
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o700)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return procgroup.Program{Command: []string{file.Name()}, Timeout: time.Minute}
}

// around opens the hooks on a launcher's directory.
func (h *hooks) around(dir, prolog, epilog string) *hook.Around {
	h.t.Helper()
	a, err := hook.OpenAround(hook.AroundOptions{
		Dir: filepath.Join(dir, "hooks"), Prolog: h.program(prolog), Epilog: h.program(epilog),
		Failed: func() { h.failed <- true },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *hooks) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.dir, name))
	return string(text)
}

const (
	noteProlog = `echo "$SYNAPSE_HOOK of $SYNAPSE_JOB_ID, $SLURM_SCRIPT_CONTEXT of $SLURM_JOB_NAME" >> log`
	noteEpilog = `[ -e go ] || { : > waits; while ! [ -e go ]; do sleep 0.01; done; }; ` + noteProlog
)

// TestAround checks that the prolog runs once before the tasks of an attempt, and the epilog once after the last task.
// The last task counts as gone only after the epilog has ended. This holds for the agent that began the epilog and for
// the next agent.
func TestAround(t *testing.T) {
	h, dir := newHooks(t), room(t)
	r := newRig(t, dir, func(o *launcher.Options) { o.Around = h.around(dir, noteProlog, noteEpilog) })
	for rank := range int32(2) {
		r.tell(prepareOf(rank, script("exit 0")))
		take[*messages.TaskPrepared](r, rank)
	}
	r.tell(startOf(0, script("exit 0")))
	r.gone(0) // at once, because another task still runs
	r.tell(startOf(1, script("exit 0")))
	eventually(t, "there is no epilog", func() bool {
		_, err := os.Stat(filepath.Join(h.dir, "waits"))
		return err == nil
	})
	r.tell(&messages.AdoptTask{Id: id(1)})
	r.tell(&messages.AdoptTask{Id: id(0)})
	r.gone(0)
	if m := func() (m *messages.TaskGone) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, said := range r.got {
			if gone, is := said.(*messages.TaskGone); is {
				m = gone
			}
		}
		return m
	}(); m != nil {
		t.Errorf("reported before the epilog has ended: %v", m)
	}
	r.l.Close()
	// The agent ends while the epilog continues. The next agent waits for the epilog and runs it again.
	next := h.around(dir, noteProlog, noteEpilog)
	r = newRig(t, dir, func(o *launcher.Options) { o.Around = next })
	r.tell(&messages.AdoptTask{Id: id(0)})
	r.tell(&messages.AdoptTask{Id: id(1)})
	looked := make(chan error, 1)
	go func() {
		_, err := next.Look(context.Background())
		looked <- err
	}()
	time.Sleep(20 * time.Millisecond)
	r.silent()
	if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Error(err)
	}
	r.gone(0)
	r.gone(1)
	want := "prolog of job-1, prolog_slurmd of test\n" + strings.Repeat("epilog of job-1, epilog_slurmd of test\n", 2)
	if got := h.read("log"); got != want {
		t.Errorf("they ran as\n%s, want\n%s", got, want)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "hooks")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestAroundFails checks a prolog or epilog that fails. The node is closed before the end of the task is reported. Both
// are repeated until they succeed.
func TestAroundFails(t *testing.T) {
	h, dir := newHooks(t), room(t)
	a := h.around(dir, "[ -e mended ] || { echo no fabric; exit 7; }", "echo >> epilogs")
	r := newRig(t, dir, func(o *launcher.Options) { o.Around = a })
	r.tell(prepareOf(0, script("exit 0")))
	exit := r.gone(0)
	if exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || exit.Fault != messages.Fault_FAULT_MACHINE ||
		!strings.Contains(exit.Detail, "the prolog of attempt 00000003.00000007: exit status 7: no fabric") {
		t.Errorf("%v", exit)
	}
	select {
	case <-h.failed:
	default:
		t.Error("no failure was reported before the task was gone")
	}
	for range 3 {
		if _, err := a.Look(context.Background()); err == nil || !strings.Contains(err.Error(), "no fabric") {
			t.Errorf("%v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := a.Look(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if got := h.read("epilogs"); got != "\n\n" {
		t.Errorf("the epilog ran as %q", got)
	}
}
