package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurmcmd"
	"github.com/yi-json/synapse/messages"
)

// This file checks that no text of other users can control the reader's terminal in any command.

// forged is the start of a line that another user tries to add. Further lines of a value are indented.
const forged = "FORGED"

// fill sets all texts in a message and its submessages.
func fill(m protoreflect.Message, text string, deep int) {
	for i := range m.Descriptor().Fields().Len() {
		switch f := m.Descriptor().Fields().Get(i); {
		case f.IsMap() || deep == 0:
		case f.Kind() == protoreflect.StringKind && f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString(text))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(text))
		case f.Message() != nil && f.IsList():
			list := m.Mutable(f).List()
			list.Append(list.NewElement())
			fill(list.Get(0).Message(), text, deep-1)
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), text, deep-1)
		}
	}
}

// shows lists the commands that print text of other users.
var shows = []string{
	"get jobs", "get jobs -o wide", "get jobs -o json", "get jobs -o yaml", "get jobs --parsable", "get jobs --start",
	"get job j1", "get job j1 -o json", "get nodes", "get nodes -o wide", "get node n1 -o json", "get node n1 -o yaml",
	"get queues", "get queues -o yaml",
	"describe job j1", "describe job j1 -o json", "describe node n1", "describe queue q",
	"explain j1", "explain j1 -o json", "top --once", "squeue", "squeue -l", "sinfo", "scontrol show job j1",
	"scontrol show node n1", "scontrol show partition", "cancel j1", "hold j1", "release j1", "requeue j1",
	"priority j1 7", "wait j1", "drain n1 --reason x", "history", "history -o json", "efficiency", "whoami", "logs j1",
	"image pull reg.example/a:1",
}

// FuzzNothingSteers checks that no text in a job, a node, a queue or an error can put a control character or a new
// line into the output of a command.
func FuzzNothingSteers(f *testing.F) {
	f.Add("\r\x1b[2J\x1b[31m\u009b31m\u202e\u2028\x7f\u0085")
	f.Add("\t\u2066\ufeff\u200f")
	f.Fuzz(func(t *testing.T, s string) {
		evil := strings.ToValidUTF8("a"+s, "") + "\n" + forged + "\u202e\x1b"
		for _, refuses := range []bool{false, true} {
			fake := startFake(t)
			one, machine := &messages.JobStatus{}, &messages.NodeStatus{}
			fill(one.ProtoReflect(), evil, 4)
			fill(machine.ProtoReflect(), evil, 4)
			one.Record.Id, one.Phase, machine.Record.Id = "j1", messages.PhaseQueued, "n1"
			one.Record.State = messages.JobState_JOB_STATE_QUEUED
			fake.jobs, fake.nodes = []*messages.JobStatus{one}, []*messages.NodeStatus{machine}
			tree := &messages.Queues{Queues: []*messages.QueueSpec{{Name: "q"}}}
			fake.queues = &messages.GetQueuesReply{Revision: 1, Queues: tree}
			if refuses {
				fake.refusal = &messages.Outcome{Code: messages.Code_CODE_INVALID, Field: evil, Text: evil, Hint: evil}
			}
			for _, line := range shows {
				words := strings.Fields(line)
				if slices.Contains(slurmcmd.Names(), words[0]) {
					words = append([]string{"slurm"}, words...)
				}
				r := cli(fake.address, words...)
				for _, out := range strings.Split(r.out+"\n"+r.err, "\n") {
					out = strings.ReplaceAll(out, "\t", "")
					if strings.ContainsFunc(out, messages.Steers) || strings.HasPrefix(out, forged) {
						t.Fatalf("%s: %q", line, out)
					}
				}
			}
		}
	})
}

// TestCharactersInPieces checks that a character that arrives in parts is one character, and that only the
// program's own colours pass.
func TestCharactersInPieces(t *testing.T) {
	var got bytes.Buffer
	q := &quoting{to: &got}
	text := "é\u202e数\x1b[31mred\x1b[0m\x1b[2J\n"
	for i := range len(text) {
		if n, err := q.Write([]byte{text[i]}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := `é\u202e数\u001b[31mred\u001b[0m\u001b[2J` + "\n"; got.String() != want {
		t.Errorf("in pieces: %q", got.String())
	}
	if got := visible(text); got != "é\\u202e数\x1b[31mred\x1b[0m\\u001b[2J\n" {
		t.Errorf("in one: %q", got)
	}
}

// TestStreamsAreQuoted checks that only the output of jobs, and checks for a terminal, bypass the escaping.
func TestStreamsAreQuoted(t *testing.T) {
	past := []string{
		"app.go", "attach.go", "cp.go", "exec.go", "logs.go", "run.go", "slurm.go", "top.go", "up.go",
		"internal/slurmcmd/salloc.go", "internal/slurmcmd/srun.go", "internal/slurmcmd/table.go",
	}
	files, err := filepath.Glob("*.go")
	beside, failed := filepath.Glob("internal/slurmcmd/*.go")
	if err != nil || failed != nil || len(files) < len(past) || len(beside) == 0 {
		t.Fatal(files, beside, err, failed)
	}
	for _, name := range append(files, beside...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lower := strings.ToLower(string(text))
		uses := strings.Contains(lower, "a.stdout") || strings.Contains(lower, "a.stderr")
		if uses && !strings.HasSuffix(name, "_test.go") && !slices.Contains(past, name) {
			t.Errorf("%s writes to a stream as it is: use a.out or a.errs, which quote what steers", name)
		}
	}
}
