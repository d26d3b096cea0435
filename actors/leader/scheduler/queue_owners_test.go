package scheduler

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of access to queues.

// newOwned is a leading Scheduler with queues: lab with owners, narrow below it, and two for all users.
func newOwned(t *testing.T) *applied {
	a := newDoor(t)
	a.goByOwned("ann", "group:ml")
	return a
}

// goByOwned configures these queues, with these owners of lab.
func (a *applied) goByOwned(owners ...string) {
	a.s.goBy(&leadertest.Context{Said: &a.said}, &messages.QueuesRecord{Revision: 2, Queues: &messages.Queues{
		Default: "lab", Queues: []*messages.QueueSpec{
			{Name: "lab", Owners: owners},
			{Name: "below", Parent: "lab"},
			{Name: "narrow", Parent: "below", Owners: []string{"ann", "zoe"}},
			{Name: "open"}, {Name: "spare"},
		},
	}})
}

// ofQueue sets the queue of a job.
func ofQueue(name string) func(*messages.JobSpec) {
	return func(s *messages.JobSpec) { s.Queue = name }
}

// arrayOf makes a job an array in a queue.
func arrayOf(name string) func(*messages.JobSpec) {
	return func(s *messages.JobSpec) {
		s.Queue = name
		s.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 1, Last: 9, Step: 1}}}
	}
}

// offers returns the outcome of a job by a dry run and by a submit, which must agree, and its record if it was
// accepted.
func (a *applied) offers(
	who string, exempt bool, groups []string, change func(*messages.JobSpec),
) (*messages.Outcome, *messages.JobRecord) {
	a.Helper()
	by, spec := &messages.Principal{Name: who}, leadertest.OneGPU()
	change(spec)
	dry := messages.OK()
	a.tell(&messages.DryRun{Principal: by, Spec: spec, AllowInfeasible: true, Exempt: exempt, Groups: groups})
	for _, l := range a.said {
		if r, is := l.Message.(*messages.DryRunReply); is {
			dry = r.Outcome
		}
	}
	a.tell(&messages.Submit{Principal: by, Spec: spec, AllowInfeasible: true, Exempt: exempt, Groups: groups})
	got, rec := messages.OK(), (*messages.JobRecord)(nil)
	for _, l := range a.said {
		switch m := l.Message.(type) {
		case *messages.SubmitReply:
			got = m.Outcome
		case protocol.Write:
			rec = m.Change.Job
		}
	}
	if dry.Code != got.Code || dry.Text != got.Text && rec == nil {
		a.Errorf("dry run returns %v, submit %v", dry, got)
	}
	return got, rec
}

// TestOwnersOfQueues checks that a job or array is refused if its owner is not in the list of the queue or of an
// ancestor. The refusal names the owners and the queues that the user may use.
func TestOwnersOfQueues(t *testing.T) {
	for _, c := range []struct {
		who, queue string
		exempt     bool
		groups     string
		text, hint string // empty: it is accepted
	}{
		{who: "ann", queue: "lab"},
		{who: "ann", queue: "narrow"},
		{who: "bob", queue: "below", groups: "hr ml"},
		{who: "bob", queue: "open"},
		{who: "root", queue: "narrow", exempt: true},
		{who: "bob", queue: "", text: "bob may not use queue lab: it is only for ann, group:ml",
			hint: "use one of bob's queues: open, spare; or ask an admin to add bob, or a group of bob, to `owners` of queue " +
				"lab"},
		{who: "bob", queue: "lab", groups: "hr", text: "bob may not use queue lab: it is only for ann, group:ml"},
		{who: "bob", queue: "below", text: "bob may not use queue below: parent queue lab is only for ann, group:ml"},
		{who: "zoe", queue: "narrow", text: "zoe may not use queue narrow: parent queue lab is only for ann, group:ml"},
		{who: "bob", queue: "narrow", groups: "ml", text: "bob may not use queue narrow: it is only for ann, zoe",
			hint: "use one of bob's queues: lab, below, open, spare; or"},
		{who: "group:ml", queue: "lab", text: "group:ml may not use queue lab"},
		{who: messages.Anonymous, queue: "lab", text: "anonymous may not use queue lab: it is only for ann, group:ml",
			hint: "without TLS every user is anonymous"},
	} {
		for _, change := range []func(*messages.JobSpec){ofQueue(c.queue), arrayOf(c.queue)} {
			no, rec := newOwned(t).offers(c.who, c.exempt, strings.Fields(c.groups), change)
			if c.text == "" {
				if rec == nil || len(rec.Owner.Groups) > 0 {
					t.Errorf("%s in %s: answered is %v, and on disk is %v", c.who, c.queue, no, rec)
				}
				continue
			}
			if rec != nil || no.Code != messages.Code_CODE_NOT_ALLOWED || no.Field != "spec.queue" ||
				!strings.HasPrefix(no.Text, c.text) || !strings.Contains(no.Hint, c.hint) || no.Hint == "" {
				t.Errorf("%s in %s: answered is %v, want %s", c.who, c.queue, no, c.text)
			}
		}
	}
	a := newDoor(t)
	a.s.queues = described{}
	if no, rec := a.offers("bob", false, nil, ofQueue("any")); rec == nil {
		t.Errorf("no queues are configured, and the outcome is %v", no)
	}
	long := newOwned(t)
	long.goByOwned(strings.Fields("a b c d e f g h i j k l")...)
	if no, _ := long.offers("bob", false, nil, ofQueue("lab")); !strings.HasSuffix(no.GetText(), "i, j and others") {
		t.Errorf("of many owners are named: %v", no)
	}
}

// TestOwnersOfQueuesChange checks that an accepted job, or element of an array, stays when its queue no longer admits
// its owner. The owner can no longer change it. A user with the right to change other users' jobs can.
func TestOwnersOfQueuesChange(t *testing.T) {
	a := newOwned(t)
	_, rec := a.offers("ann", false, nil, ofQueue("lab"))
	a.s.jobs[topology.JobID(rec.Id)].pid = leadertest.Peers.Journal
	_, array := a.offers("ann", false, nil, arrayOf("lab"))
	a.s.jobs[topology.JobID(array.Id)].pid = leadertest.Peers.Journal
	change := func(id, who string, exempt bool, groups ...string) *messages.Outcome {
		a.tell(&messages.Update{
			Principal: &messages.Principal{Name: who}, Job: id, SetPriority: true, Priority: 1, Exempt: exempt, Groups: groups,
		})
		for _, l := range a.said {
			if r, is := l.Message.(*messages.UpdateReply); is {
				return r.Outcome
			}
		}
		return messages.OK() // it was passed on
	}
	for _, id := range []string{rec.Id, array.Id, messages.ElementID(array.Id, 3)} {
		a.goByOwned("ann", "group:ml")
		if no := change(id, "ann", false); no.Code != messages.Code_CODE_OK {
			t.Errorf("%s: ann is an owner: %v", id, no)
		}
		a.goByOwned("zoe", "group:ml")
		if no := change(id, "ann", false); no.Code != messages.Code_CODE_NOT_ALLOWED || no.Field != "job" ||
			no.Text != "ann may not use queue lab: it is only for zoe, group:ml" || !strings.Contains(no.Hint, "cancel") {
			t.Errorf("%s: ann is an owner no more: %v", id, no)
		}
		for _, no := range []*messages.Outcome{
			change(id, "ann", false, "ml"), change(id, "ann", true), change(id, "oli", false),
		} {
			if no.Code != messages.Code_CODE_OK {
				t.Errorf("%s: by a group, as an admin, or by an operator: %v", id, no)
			}
		}
	}
	spec := array.Spec.ElementSpec(array.Id, 3)
	a.tell(protocol.Sprout{Array: array, Index: 3, Spec: spec})
	if a.s.jobs[topology.JobID(messages.ElementID(array.Id, 3))] == nil {
		t.Error("an element of an accepted array is refused")
	}
	if a.s.jobs[topology.JobID(rec.Id)] == nil {
		t.Error("the job has gone")
	}
}
