package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of queue configurations: which are accepted, when they are acknowledged, and what the next
// leader has.

// applied is a Scheduler that gets queue configurations.
type applied struct {
	*testing.T
	s    *Scheduler
	said []leadertest.Letter
}

func newApplied(t *testing.T) *applied {
	a := &applied{T: t, s: New(leadertest.Ports(), Makers{}).(*Scheduler)}
	a.s.peers, a.s.self = leadertest.Peers, leadertest.Peers.Scheduler
	a.s.states.Become("loaded", schedulerRecovering)
	return a
}

func (a *applied) tell(m any) {
	a.said = nil
	a.s.Receive(&leadertest.Context{Hears: m, Said: &a.said})
}

// apply sends a configuration. It returns the answer, or the write that the answer waits for.
func (a *applied) apply(revision uint64, dryRun bool, names ...string) (*messages.ApplyQueuesReply, *protocol.Write) {
	a.Helper()
	tree := &messages.Queues{Default: names[0]}
	for _, name := range names {
		tree.Queues = append(tree.Queues, &messages.QueueSpec{Name: name})
	}
	ops := &messages.Principal{Name: "ops"}
	a.tell(&messages.ApplyQueues{Principal: ops, Queues: tree, Revision: revision, DryRun: dryRun})
	return a.answer()
}

func (a *applied) answer() (reply *messages.ApplyQueuesReply, write *protocol.Write) {
	for _, l := range a.said {
		switch m := l.Message.(type) {
		case *messages.ApplyQueuesReply:
			reply = m
		case protocol.Write:
			write = &m
		}
	}
	return reply, write
}

func (a *applied) written(w *protocol.Write, verdict actors.Verdict) *messages.ApplyQueuesReply {
	a.Helper()
	a.tell(protocol.Written{Tag: w.Tag, Verdict: verdict})
	reply, _ := a.answer()
	return reply
}

// TestQueuesAreAppliedOnceOnDisk checks that queues are acknowledged, shown and applied only after they are on disk,
// and that each revision replaces the last.
func TestQueuesAreAppliedOnceOnDisk(t *testing.T) {
	a := newApplied(t)
	reply, first := a.apply(0, false, "nlp", "vision")
	if reply != nil || first == nil || a.s.queues.tree != nil {
		t.Fatalf("answered %v before anything was on disk", reply)
	}
	if other, w := a.apply(0, false, "nlp"); w != nil || other.Outcome.Code != messages.Code_CODE_UNAVAILABLE {
		t.Errorf("while others are on their way: %v", other)
	}
	if r := a.written(first, actors.Done); r.GetRevision() != 1 || r.Outcome.Code != messages.Code_CODE_OK {
		t.Errorf("on disk, and answered is %v", r)
	}
	shown := slices.ContainsFunc(a.said, func(l leadertest.Letter) bool {
		q, is := l.Message.(mirror.QueuesShown)
		return is && proto.Equal(q.Record, first.Change.Queues)
	})
	if names := a.s.queues.tree.Names(); !shown || fmt.Sprint(names) != "[nlp vision]" {
		t.Errorf("gone by is %v, and shown: %v", names, shown)
	}
	if r, w := a.apply(1, false, "nlp", "vision"); w != nil || !r.Unchanged || r.Revision != 1 {
		t.Errorf("the same again: %v", r)
	}
	if r, w := a.apply(7, false, "nlp", "vision"); w != nil || !r.Unchanged {
		t.Errorf("the same again, of another revision: %v", r)
	}
	if r, w := a.apply(7, false, "nlp"); w != nil || r.Outcome.Code != messages.Code_CODE_CONFLICT ||
		r.Outcome.Field != "revision" {
		t.Errorf("of another revision: %v", r)
	}
	if r, w := a.apply(1, true, "nlp"); w != nil || r.Revision != 2 || r.Outcome.Code != messages.Code_CODE_OK {
		t.Errorf("a dry run: %v", r)
	}
	_, second := a.apply(1, false, "nlp")
	if r := a.written(second, actors.Conflict); r.Outcome.Code == messages.Code_CODE_OK ||
		len(a.s.queues.tree.Queues) != 2 {
		t.Errorf("the store refuses them, and answered is %v", r)
	}
	_, third := a.apply(0, false, "nlp")
	if r := a.written(third, actors.Done); r.GetRevision() != 2 {
		t.Errorf("answered is %v", r)
	}

	next := newApplied(t)
	next.s.recallQueues(&leadertest.Context{Said: &next.said}, third.Change.Queues)
	if r, _ := next.apply(1, false, "vision"); r == nil || r.Revision != 2 ||
		r.Outcome.Code != messages.Code_CODE_CONFLICT {
		t.Errorf("the next leader has revision 2, and answers %v", r)
	}
}

// TestQueuesThatMakeNoSense checks that invalid queues are refused with the field, and that no request is answered
// before the store was read.
func TestQueuesThatMakeNoSense(t *testing.T) {
	a := newApplied(t)
	if r, w := a.apply(0, false, "nlp", "nlp"); w != nil || r.Outcome.Code != messages.Code_CODE_INVALID ||
		!strings.Contains(r.Outcome.Text, "queues[1].name") {
		t.Errorf("duplicate name: %v", r)
	}
	a.s.jobs["j"] = &livingJob{jobRecord: jobRecord{id: "j",
		rec: &messages.JobRecord{Spec: &messages.JobSpec{Queue: "old"}}}}
	if r, _ := a.apply(0, true, "nlp"); fmt.Sprint(r.Closed) != "[old]" {
		t.Errorf("closed are %v", r.Closed)
	}
	a.s = New(leadertest.Ports(), Makers{}).(*Scheduler)
	if r, _ := a.apply(0, true, "nlp"); r.Outcome.Code != messages.Code_CODE_UNAVAILABLE {
		t.Errorf("before the store was read: %v", r)
	}
	p := leadertest.Ports()
	p.Planner = policy.Default{}
	a.s = New(p, Makers{}).(*Scheduler)
	a.s.peers, a.s.self = leadertest.Peers, leadertest.Peers.Scheduler
	a.s.goBy(&leadertest.Context{Said: &a.said}, &messages.QueuesRecord{Revision: 1, Queues: &messages.Queues{
		Queues: []*messages.QueueSpec{{Name: "nlp"}},
	}})
	if _, is := a.s.planner.(policy.Sharer); !is {
		t.Errorf("%T goes by no queues", a.s.planner)
	}
}

// TestNextLeaderCountsWhatRuns checks that the next leader applies the stored queues, and counts each live job once
// before its first pass.
func TestNextLeaderCountsWhatRuns(t *testing.T) {
	a := newApplied(t)
	a.s.recallQueues(&leadertest.Context{Said: &a.said}, &messages.QueuesRecord{Revision: 3, Queues: &messages.Queues{
		Default: "nlp", Queues: []*messages.QueueSpec{{Name: "nlp", Limit: []*messages.Amount{{Name: "gpu", Amount: 1000}}}},
	}})
	for n, id := range []topology.JobID{"runs", "ended", "waits"} {
		token := topology.Token{Epoch: 1, Counter: uint64(n + 1)}
		e := &livingJob{jobRecord: jobRecord{id: id, rec: &messages.JobRecord{
			Id: string(id), Spec: leadertest.OneGPU(), Owner: &messages.Principal{Name: "ann"},
		}}}
		a.s.jobs[id] = e
		if id == "waits" {
			continue
		}
		a.s.newRun(nil, e, &run{token: token, spec: e.rec.Spec, nodes: []topology.NodeID{"n1"}, ended: id == "ended"})
		who := a.s.tenant(id, token)
		a.s.machine("n1").room.Lodge(&who, topology.Resources{MilliGPU: 1000})
	}
	a.s.occupy()
	planner, is := a.s.planner.(policy.Sharer)
	if !is || a.s.queues.record.GetRevision() != 3 {
		t.Fatalf("the next leader has revision %d and plans by %T", a.s.queues.record.GetRevision(), a.s.planner)
	}
	if n := planner.Of("nlp", "ann"); n != 1 {
		t.Errorf("%d jobs count as running instead of one", n)
	}
}
