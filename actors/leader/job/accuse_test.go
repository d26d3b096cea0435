package job

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// TestAccuse checks which verdicts the Scheduler gets: those of the infrastructure that name a node, each once, and
// corrections of them.
func TestAccuse(t *testing.T) {
	const (
		failed = messages.Cause_CAUSE_MEMBER_FAILED
		gpu    = messages.FailureClass_FAILURE_CLASS_GPU
		user   = messages.FailureClass_FAILURE_CLASS_USER
	)
	attempt := func(cause messages.Cause, v *messages.Verdict) *messages.AttemptRecord {
		return &messages.AttemptRecord{Token: &messages.Token{Epoch: 1, Counter: 7}, End: &messages.End{Cause: cause},
			Verdict: v}
	}
	for _, c := range []struct {
		name    string
		written []*messages.AttemptRecord
		want    []string // the accused nodes
	}{
		{"no end", []*messages.AttemptRecord{{Token: &messages.Token{Epoch: 1, Counter: 7}}}, nil},
		{"a GPU", []*messages.AttemptRecord{attempt(failed, &messages.Verdict{Class: gpu, Node: "n1"})}, []string{"n1"}},
		{"twice", []*messages.AttemptRecord{attempt(failed, &messages.Verdict{Class: gpu, Node: "n1"}),
			attempt(failed, &messages.Verdict{Class: gpu, Node: "n1", Others: 3})}, []string{"n1"}},
		{"the user", []*messages.AttemptRecord{attempt(failed, &messages.Verdict{Class: user, Node: "n1", Charged: true})},
			nil},
		{"a lost node", []*messages.AttemptRecord{attempt(messages.Cause_CAUSE_MACHINE_LOST,
			&messages.Verdict{Class: messages.FailureClass_FAILURE_CLASS_NODE, Node: "n1"})}, []string{"n1"}},
		{"a removed node", []*messages.AttemptRecord{attempt(messages.Cause_CAUSE_REMOVED,
			&messages.Verdict{Class: messages.FailureClass_FAILURE_CLASS_NODE, Node: "n1"})}, nil},
		{"a broken image", []*messages.AttemptRecord{attempt(messages.Cause_CAUSE_PREPARE_FAILED,
			&messages.Verdict{Class: messages.FailureClass_FAILURE_CLASS_NODE, Node: "n1"})}, nil},
		{"an unknown killer", []*messages.AttemptRecord{attempt(failed,
			&messages.Verdict{Class: messages.FailureClass_FAILURE_CLASS_UNKNOWN, Node: "n1"})}, nil},
		{"the memory of the host", []*messages.AttemptRecord{attempt(failed,
			&messages.Verdict{Class: messages.FailureClass_FAILURE_CLASS_OUT_OF_MEMORY, Node: "n1"})}, nil},
		{"a corrected verdict", []*messages.AttemptRecord{attempt(failed, &messages.Verdict{Class: user, Charged: true}),
			attempt(failed, &messages.Verdict{Class: gpu, Node: "n1"}),
			attempt(failed, &messages.Verdict{Class: gpu, Node: "n2"})}, []string{"n1", "n2"}},
		{"a withdrawn verdict", []*messages.AttemptRecord{attempt(failed, &messages.Verdict{Class: gpu, Node: "n1"}),
			attempt(failed, &messages.Verdict{Class: user, Node: "n1", Charged: true})}, []string{"n1", ""}},
	} {
		j, _, _ := gangOfTwo()
		j.rec.Owner = &messages.Principal{Name: "ann"}
		ctx := &leadertest.Context{Said: new([]leadertest.Letter)}
		for _, a := range c.written {
			j.accuse(ctx, []*messages.AttemptRecord{a})
		}
		var got []string
		for _, l := range *ctx.Said {
			m := l.Message.(protocol.Accused)
			if got = append(got, string(m.Node)); m.Owner != "ann" || m.Job != "j1" || l.To != "scheduler" {
				t.Errorf("%s: %+v", c.name, l)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %q is accused, want %q", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %q is accused, want %q", c.name, got, c.want)
			}
		}
	}
}

// counted is a host that records what is counted.
type counted struct {
	leadertest.Host
	names *[]string
}

func (c counted) Count(name string, _ int64) { *c.names = append(*c.names, name) }

// TestCountVerdict checks that each failed attempt is counted once, with its class and its cause.
func TestCountVerdict(t *testing.T) {
	j, _, _ := gangOfTwo()
	var names []string
	j.p.Host = counted{names: &names}
	ctx := &leadertest.Context{Said: new([]leadertest.Letter)}
	for i, v := range []*messages.Verdict{nil, {Class: messages.FailureClass_FAILURE_CLASS_OUT_OF_MEMORY, Charged: true},
		{Class: messages.FailureClass_FAILURE_CLASS_USER, Charged: true}} {
		a := &messages.AttemptRecord{Token: &messages.Token{Epoch: 1, Counter: uint64(i + 1)}, Verdict: v,
			End: &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED}}
		for range 3 {
			j.accuse(ctx, []*messages.AttemptRecord{a})
		}
	}
	if want := []string{"verdict.out-of-memory.member failed", "verdict.user.member failed"}; !slices.Equal(names, want) {
		t.Errorf("counted %q, want %q", names, want)
	}
}
