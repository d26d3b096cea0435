package scheduler

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
)

// This file owns the tests of writing and reading start guarantees.

// TestPromiseIsTakenOver checks that the next leader's planner has the guarantee on disk until the job is withdrawn. If
// the guarantee is no longer possible, the job gets the news.
func TestPromiseIsTakenOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*messages.JobRecord, *messages.NodeRecord)
		stands bool
	}{
		{"as it is", func(*messages.JobRecord, *messages.NodeRecord) {}, true},
		{"another machine", func(_ *messages.JobRecord, n *messages.NodeRecord) { n.MachineId = "m2" }, false},
		{"removed", func(_ *messages.JobRecord, n *messages.NodeRecord) { n.Removed = &messages.Deed{} }, false},
		{"run by an earlier version", func(j *messages.JobRecord, _ *messages.NodeRecord) { j.Runs = 1 }, false},
		{"held by an earlier version", func(j *messages.JobRecord, _ *messages.NodeRecord) {
			j.Hold = &messages.Deed{}
		}, false},
	} {
		p := leadertest.Ports()
		p.Planner, p.Settings = nil, policy.DefaultSettings()
		s := New(p, Makers{}).(*Scheduler)
		s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
		rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
		rec.Promise = leadertest.Promise()
		node := &messages.NodeRecord{Id: "n1", MachineId: "m1"}
		c.change(rec, node)
		s.machine("n1").record = node
		e := &livingJob{jobRecord: jobRecord{id: "j1", rec: rec}, jobActor: jobActor{pid: actor.NewPID("", "job")}}
		s.jobs["j1"] = e
		var said []leadertest.Letter
		s.inherit(&leadertest.Context{Said: &said}, e, rec)
		stands := s.planner.(policy.Rememberer).Inherit(&policy.Firm{Job: "j1"}, 0)
		if stands != c.stands || (e.promise != nil) != c.stands || (len(said) == 0) != c.stands {
			t.Errorf("%s: the planner has it %v, sent %v", c.name, stands, said)
		}
		s.Receive(&leadertest.Context{Hears: protocol.Withdraws{Job: "j1"}, Said: &said})
		if s.planner.(policy.Rememberer).Inherit(&policy.Firm{Job: "j1"}, 0) || e.promise != nil {
			t.Errorf("%s: it is withdrawn, and still promised", c.name)
		}
		p.Settings, e.promise, said = policy.Settings{}, nil, nil
		fifo := New(p, Makers{}).(*Scheduler)
		if fifo.inherit(&leadertest.Context{Said: &said}, e, rec); len(said) != 1 {
			t.Errorf("%s: a leader without guarantees sent %v", c.name, said)
		}
	}
}

// inheritor records the guarantee that it inherits.
type inheritor struct {
	*policy.Judgement
	got policy.Firm
}

func (i *inheritor) Inherit(f *policy.Firm, nowNs int64) bool {
	i.got = *f
	return i.Judgement.Inherit(f, nowNs)
}

// TestInheritedInFull checks that the next leader's planner gets all fields of a guarantee. A guarantee on borrowed
// quota must not count against the queue that owns the quota.
func TestInheritedInFull(t *testing.T) {
	p := leadertest.Ports()
	p.Planner, p.Settings = nil, policy.DefaultSettings()
	s := New(p, Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	next := &inheritor{Judgement: s.planner.(*policy.Judgement)}
	s.planner = next
	s.machine("n1").record = &messages.NodeRecord{Id: "n1", MachineId: "m1"}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
	rec.Promise = leadertest.Promise()
	rec.Promise.OnLoan, rec.Promise.Slips, rec.Promise.Order, rec.Promise.Pool = true, 3, 7, "h100"
	rec.Promise.LeftMs, rec.Spec.Queue, rec.Spec.NotPreemptible = 5000, "a", true
	rec.Promise.Victims = []*messages.Victim{{Job: "j2", Rule: messages.PreemptionRule(1), LostMilliGpuSeconds: 9}}
	e := &livingJob{jobRecord: jobRecord{id: "j1", rec: rec}, jobActor: jobActor{pid: actor.NewPID("", "job")}}
	s.jobs["j1"] = e
	s.inherit(&leadertest.Context{Said: &[]leadertest.Letter{}}, e, rec)
	if f := next.got; !f.OnLoan || f.Slips != 3 || f.Order != 7 || f.Pool != "h100" || f.Left != 5e9 || f.Queue != "a" ||
		!f.Fixed || len(f.Where.Slots) != len(rec.Promise.Kept) || len(f.Stops) != 1 || f.Stops[0].Job != "j2" ||
		f.Stops[0].Lost != 9 {
		t.Errorf("the planner is given %+v", f)
	}
}
