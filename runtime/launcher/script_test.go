package launcher_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/launcher"
)

// brought returns a job with this script.
func brought(t *testing.T, text string, args ...string) *messages.JobSpec {
	t.Helper()
	s, err := messages.NewScript("train.sh", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	spec := &messages.JobSpec{Name: "test", Image: "host", Script: s}
	spec = spec.Bare()
	spec.Script.Args = args
	return spec
}

// TestScript checks that a job's script is fetched once for all tasks of the node, also if the agent restarts between
// Prepare and Start. Each task runs its own copy with its arguments. After the last task is forgotten, no copy is left.
func TestScript(t *testing.T) {
	const text = "#!/bin/sh\necho \"$SYNAPSE_RANK ${0##*/} $*\"; rm -- \"$0\" && echo mine\n"
	dir, fetches := room(t), new(atomic.Int32)
	with := func(o *launcher.Options) {
		o.Scripts = func(context.Context, string) ([]byte, error) {
			fetches.Add(1)
			return []byte(text), nil
		}
	}
	spec := brought(t, text, "--lr", "a b")
	whole := proto.Clone(spec)
	r := newRig(t, dir, with)
	kept := filepath.Join(dir, "scripts", spec.Script.Digest)
	for rank := range int32(3) {
		r.tell(prepareOf(rank, spec))
	}
	for rank := range int32(3) {
		take[*messages.TaskPrepared](r, rank)
	}
	r.tell(startOf(0, spec))
	if e := r.gone(0); e.Code != 0 {
		t.Fatalf("rank 0 ended as %v: %s", e, r.read(0, true))
	}
	r.l.Close()
	if err := os.WriteFile(filepath.Join(dir, "scripts", "of-nobody"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, dir, with)
	for rank := range int32(3) {
		if rank > 0 {
			r.tell(startOf(rank, spec))
			if e := r.gone(rank); e.Code != 0 {
				t.Fatalf("rank %d ended as %v: %s", rank, e, r.read(rank, true))
			}
		}
		want := string('0'+rank) + " train.sh --lr a b\n"
		if out := r.read(rank, false); !strings.HasPrefix(out, want) {
			t.Errorf("%q, want %q", out, want)
		}
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "scripts")); len(left) != 1 {
		t.Errorf("kept are %v", left)
	}
	for rank := range int32(3) {
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("before rank %d is forgotten: %v", rank, err)
		}
		r.tell(&messages.AdoptTask{Id: id(rank)})
		r.gone(rank)
		r.tell(&messages.ForgetTask{Id: id(rank)})
		eventually(t, "it is not forgotten", func() bool {
			r.tell(&messages.ListTasks{})
			return len(take[*messages.TaskList](r, -1).Tasks) == int(2-rank)
		})
	}
	for _, of := range []string{"scripts", "scratch"} {
		if left, _ := os.ReadDir(filepath.Join(dir, of)); len(left) > 0 {
			t.Errorf("left of %s: %v", of, left)
		}
	}
	if !proto.Equal(spec, whole) {
		t.Error("the job's own spec was changed")
	}
}

// TestScriptIsNotTheOne checks that a text that does not match the digest never runs. If a text cannot be fetched, the
// scheduler's answer decides whether the job or the node is at fault.
func TestScriptIsNotTheOne(t *testing.T) {
	const text = "#!/bin/sh\necho right\n"
	spec, sent, fails := brought(t, text), "#!/bin/sh\necho wrong\n", error(nil)
	dir := room(t)
	r := newRig(t, dir, func(o *launcher.Options) {
		o.Scripts = func(context.Context, string) ([]byte, error) { return []byte(sent), fails }
	})
	refused := func(rank int32, words string, whose messages.Fault) {
		t.Helper()
		r.tell(prepareOf(rank, spec))
		if e := r.gone(rank); e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || !strings.Contains(e.Detail,
			words) || e.Fault != whose {
			t.Errorf("it ended as %v", e)
		}
	}
	refused(0, "does not have the digest", messages.Fault_FAULT_MACHINE)
	fails = fault.OfJob(errors.New("there is none"))
	refused(1, "script: there is none", messages.Fault_FAULT_JOB)
	if err := os.WriteFile(filepath.Join(dir, "scripts", spec.Script.Digest), []byte("#!/bin/sh\necho torn\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	sent, fails = text, nil
	r.run(2, spec)
	if e := r.gone(2); e.Code != 0 || r.read(2, false) != "right\n" {
		t.Errorf("it ended as %v: %q", e, r.read(2, false))
	}
}
