package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the terms and defaults of queues at submit.

func num[T any](n T) *T { return &n }

// hour is one hour in milliseconds, the unit of messages.
const hour = int64(3_600_000)

// newDoor is a leading Scheduler with queues: top with all terms, a queue below it without any, and two others.
func newDoor(t *testing.T) *applied {
	a := newApplied(t)
	a.s.states.Become("all heard", schedulerLeading)
	made := 0
	a.s.p.NewJobID = func() topology.JobID { made++; return topology.JobID(fmt.Sprint("j", made)) }
	a.s.goBy(&leadertest.Context{Said: &a.said}, &messages.QueuesRecord{Revision: 1, Queues: &messages.Queues{
		Default: "low", Queues: []*messages.QueueSpec{
			{Name: "low", Parent: "top"},
			{
				Name: "top", DefaultLimitMs: num(2 * hour), MostLimitMs: num(5 * hour), DefaultPriority: num[int32](50),
				MostPriority: num[int32](100), OwnerWaiting: num[int64](3), Selector: []*messages.Label{{Key: "pool", Value: "a"}},
				Limit: []*messages.Amount{{Name: "gpu", Amount: 4000}},
			},
			{Name: "free", DefaultLimitMs: num[int64](0), OwnerAmounts: []*messages.Amount{{Name: "gpu", Amount: 2000}}},
			{Name: "most", MostLimitMs: num(hour), MostPriority: num[int32](-5), MostGraceMs: num[int64](120_000)},
		},
	}})
	return a
}

// submits returns the outcome of a job, and its record if it was accepted. A dry run must agree.
func (a *applied) submits(change func(*messages.JobSpec), allow bool) (*messages.Outcome, *messages.JobRecord) {
	a.Helper()
	spec := leadertest.OneGPU()
	change(spec)
	ann := &messages.Principal{Name: "ann"}
	was := messages.Bytes(spec)
	a.tell(&messages.DryRun{Principal: ann, Spec: spec, AllowInfeasible: allow})
	dry := &messages.Outcome{}
	for _, l := range a.said {
		if r, is := l.Message.(*messages.DryRunReply); is {
			dry = r.Outcome
		}
	}
	a.tell(&messages.Submit{Principal: ann, Spec: spec, AllowInfeasible: allow})
	outcome, rec := messages.OK(), (*messages.JobRecord)(nil)
	for _, l := range a.said {
		switch m := l.Message.(type) {
		case *messages.SubmitReply:
			outcome = m.Outcome
		case protocol.Write:
			rec = m.Change.Job
		}
	}
	if dry.Code != outcome.Code || dry.Field != outcome.Field {
		a.Errorf("dry run returns %v, submit %v", dry, outcome)
	}
	if string(was) != string(messages.Bytes(spec)) {
		a.Error("the spec as it was submitted was changed")
	}
	return outcome, rec
}

// asking adds a node selector to a job.
func asking(key, value string) func(*messages.JobSpec) {
	return func(s *messages.JobSpec) { s.NodeSelector = []*messages.Label{{Key: key, Value: value}} }
}

// TestQueuesGive checks that a job gets unset values from its queue or the nearest ancestor that sets them, on disk
// with the submit. An explicit 0 stays 0.
func TestQueuesGive(t *testing.T) {
	for _, c := range []struct {
		change   func(*messages.JobSpec)
		priority int32
		limit    int64
		selector string
	}{
		{func(*messages.JobSpec) {}, 50, 2 * hour, "pool=a"},
		{func(s *messages.JobSpec) { s.Queue, s.Priority, s.TimeLimitMs = "top", 100, 5*hour }, 100, 5 * hour, "pool=a"},
		{func(s *messages.JobSpec) { s.PriorityZero = true }, 0, 2 * hour, "pool=a"},
		{func(s *messages.JobSpec) { s.Queue = "free" }, 0, 0, ""},
		{func(s *messages.JobSpec) { s.Queue = "most" }, -5, hour, ""},
		{asking("x", "1"), 50, 2 * hour, "x=1 pool=a"},
		{asking("pool", "a"), 50, 2 * hour, "pool=a"},
	} {
		_, rec := newDoor(t).submits(c.change, true)
		var labels []string
		for _, l := range rec.GetSpec().GetNodeSelector() {
			labels = append(labels, l.Key+"="+l.Value)
		}
		s := rec.GetSpec()
		if s.GetPriority() != c.priority || s.GetTimeLimitMs() != c.limit || strings.Join(labels, " ") != c.selector {
			t.Errorf("given are priority %d, limit %d and %v, want %+v", s.GetPriority(), s.GetTimeLimitMs(), labels, c)
		}
	}
}

// TestQueuesRefuse checks that a request which a queue or an ancestor does not allow is refused with its field.
func TestQueuesRefuse(t *testing.T) {
	for field, c := range map[string]struct {
		change func(*messages.JobSpec)
		code   messages.Code
	}{
		"spec.time_limit_ms": {func(s *messages.JobSpec) { s.TimeLimitMs = 5*hour + 1 }, messages.Code_CODE_INVALID},
		"spec.checkpoint.grace_ms": {func(s *messages.JobSpec) {
			s.Queue, s.Checkpoint = "most", &messages.CheckpointSpec{GraceMs: 120_001}
		}, messages.Code_CODE_INVALID},
		"spec.priority": {func(s *messages.JobSpec) { s.Priority = 101 }, messages.Code_CODE_NOT_ALLOWED},
		"spec.node_selector": {
			asking("pool", "b"), messages.Code_CODE_INVALID,
		},
	} {
		if no, rec := newDoor(t).submits(c.change, true); rec != nil || no.Code != c.code || no.Field != field {
			t.Errorf("%s: answered is %v", field, no)
		}
	}
	for _, c := range []struct {
		queue string
		tasks int32
		never bool
	}{{"low", 4, false}, {"low", 5, true}, {"free", 2, false}, {"free", 3, true}} {
		a := newDoor(t)
		spec := func(s *messages.JobSpec) { s.Queue, s.Gang.ReplicasMin, s.Gang.ReplicasMax = c.queue, c.tasks, c.tasks }
		s := leadertest.OneGPU()
		spec(s)
		no := a.s.neverAllowed(&messages.Principal{Name: "ann"}, s)
		if got := no.GetOutcome().GetCode() == messages.Code_CODE_INFEASIBLE; got != c.never {
			t.Errorf("%d GPUs in %s: %v", c.tasks, c.queue, no)
		}
		if _, rec := a.submits(spec, true); rec == nil {
			t.Error("an infeasible job is refused although that is allowed")
		}
	}
}

// TestQueuesBoundGrace checks the time to save that jobs of a queue get: what they name, or at most the queue's
// maximum. The refusal of a longer time names the queue and its maximum.
func TestQueuesBoundGrace(t *testing.T) {
	for _, c := range []struct {
		queue       string
		grace, want int64
	}{
		{"most", 0, 120_000}, {"most", 120_000, 120_000}, {"most", 5_000, 5_000}, {"low", 0, 0},
		{"low", 600_000, 600_000},
	} {
		_, rec := newDoor(t).submits(func(s *messages.JobSpec) {
			s.Queue, s.Checkpoint = c.queue, &messages.CheckpointSpec{GraceMs: c.grace}
		}, true)
		if got := rec.GetSpec().GetCheckpoint().GetGraceMs(); rec == nil || got != c.want {
			t.Errorf("%+v: the job gets %d", c, got)
		}
	}
	no, _ := newDoor(t).submits(func(s *messages.JobSpec) {
		s.Queue, s.Checkpoint = "most", &messages.CheckpointSpec{GraceMs: 600_000}
	}, true)
	if no.Text != "is 10m0s, and the maximum in queue most is 2m0s" || no.Hint != "use at most 2m0s" {
		t.Errorf("%v", no)
	}
}

// TestOwnersWaitingAreCounted checks that an owner's waiting jobs count in a queue together with its descendants, each
// while it waits.
func TestOwnersWaitingAreCounted(t *testing.T) {
	a := newDoor(t)
	in := func(queue string) bool {
		_, rec := a.submits(func(s *messages.JobSpec) { s.Queue = queue }, true)
		return rec != nil
	}
	if !in("low") || !in("") || !in("top") {
		t.Fatal("three jobs may wait")
	}
	if in("low") || in("top") || in("") || !in("free") {
		t.Error("three of ann wait in top and below it, which takes three")
	}
	a.s.idles(&leadertest.Context{Said: &a.said}, a.s.jobs["j2"], false) // it is admitted
	if !in("low") || in("low") {
		t.Error("one of three has started, so one more may wait")
	}
	a.tell(protocol.Waits{Record: a.s.jobs["j2"].rec}) // and returns
	a.tell(protocol.Settled{Job: "j1"})
	if in("low") {
		t.Error("three wait again")
	}
	next := newDoor(t)
	for i, state := range []messages.JobState{1, 1, 1, 2} {
		rec := &messages.JobRecord{
			Id: fmt.Sprint("k", i), Spec: leadertest.OneGPU(), State: state, Owner: &messages.Principal{Name: "ann"},
		}
		e := &livingJob{jobRecord: jobRecord{rec: rec, key: requestKey{owner: "ann"}}}
		next.s.idles(&leadertest.Context{Said: &next.said}, e, state == messages.JobState_JOB_STATE_QUEUED)
	}
	if _, rec := next.submits(func(*messages.JobSpec) {}, true); rec != nil {
		t.Error("three jobs from disk wait")
	}
}

// TestUpdatesAreHeldAgainstQueues checks that a change is refused like a submit. An allowed change goes to the job.
func TestUpdatesAreHeldAgainstQueues(t *testing.T) {
	a := newDoor(t)
	_, rec := a.submits(func(*messages.JobSpec) {}, true)
	e := a.s.jobs[topology.JobID(rec.Id)]
	e.pid = leadertest.Peers.Journal
	for _, c := range []struct {
		update *messages.Update
		code   messages.Code // OK: it is passed on
	}{
		{&messages.Update{SetPriority: true, Priority: 101}, messages.Code_CODE_NOT_ALLOWED},
		{&messages.Update{SetPriority: true, Priority: 100}, messages.Code_CODE_OK},
		{&messages.Update{SetTimeLimit: true}, messages.Code_CODE_INVALID},
		{&messages.Update{SetTimeLimit: true, TimeLimitMs: 6 * hour}, messages.Code_CODE_INVALID},
		{&messages.Update{SetTimeLimit: true, TimeLimitMs: 5 * hour}, messages.Code_CODE_OK},
		{&messages.Update{SetBegin: true}, messages.Code_CODE_OK},
	} {
		c.update.Job = rec.Id
		a.tell(c.update)
		got := messages.Code_CODE_OK
		for _, l := range a.said {
			if r, is := l.Message.(*messages.UpdateReply); is {
				got = r.Outcome.Code
			}
		}
		if got != c.code {
			t.Errorf("%v: answered is %v, want %v", c.update, got, c.code)
		}
	}
}

// TestUsesAreKept checks that the past usage of queues goes into the statistics record. The next leader continues from
// it and from the attempts that ended after it.
func TestUsesAreKept(t *testing.T) {
	a, next := newDoor(t), newDoor(t)
	spec := leadertest.OneGPU()
	spec.Queue = "low"
	ended := actors.Ended{
		Job:     &messages.JobRecord{Id: "j", Spec: spec, Owner: &messages.Principal{Name: "ann"}},
		Attempt: &messages.AttemptRecord{Token: &messages.Token{Epoch: 1, Counter: 9}, End: &messages.End{RanMs: 60_000}},
	}
	a.s.recollect(actors.Loaded{Unlearned: []actors.Ended{ended}})
	first := a.s.uses()
	if len(first) != 1 || first[0].Queue != "low" || first[0].MilliGpuMs < 59_000_000 || first[0].MilliGpuMs > 60_001_000 {
		t.Fatalf("usage of one GPU for a minute is %v", first)
	}
	next.s.recollect(actors.Loaded{Policy: &messages.PolicyRecord{Uses: first}, Unlearned: []actors.Ended{ended}})
	if got := next.s.uses(); len(got) != 1 || got[0].MilliGpuMs != 2*first[0].MilliGpuMs {
		t.Errorf("the next leader has %v, and should have twice %v", got, first)
	}
}
