package scheduler

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the limits of one owner without configured queues.

// limitedTo is a leading Scheduler without queues and with these limits.
func limitedTo(t *testing.T, limits protocol.OwnerLimits, uids topology.UIDRange) *applied {
	a := newApplied(t)
	a.s.states.Become("all heard", schedulerLeading)
	a.s.p.Owners = limits
	*a.s.uids = *topology.NewUIDs(uids)
	made := 0
	a.s.p.NewJobID = func() topology.JobID { made++; return topology.JobID(fmt.Sprint("j", made)) }
	return a
}

// brings returns the outcome of a job by a dry run and by a submit, which must agree.
func (a *applied) brings(owner string, exempt bool, change func(*messages.JobSpec)) *messages.Outcome {
	a.Helper()
	who, spec := &messages.Principal{Name: owner}, leadertest.OneGPU()
	change(spec)
	a.said = nil
	a.tell(&messages.DryRun{Principal: who, Spec: spec, AllowInfeasible: true, Exempt: exempt})
	dry := a.said[len(a.said)-1].Message.(*messages.DryRunReply).Outcome
	a.said = nil
	a.tell(&messages.Submit{Principal: who, Spec: spec, AllowInfeasible: true, Exempt: exempt})
	got := messages.OK()
	for _, l := range a.said {
		if r, is := l.Message.(*messages.SubmitReply); is {
			got = r.Outcome
		}
	}
	if dry.Code != got.Code || got.Code != messages.Code_CODE_OK && dry.Text != got.Text {
		a.Errorf("dry run returns %v, submit %v", dry, got)
	}
	return got
}

// plain leaves a job as it is.
func plain(*messages.JobSpec) {}

// isExhausted reports whether a limit refused a job with a text that contains all of these words.
func isExhausted(o *messages.Outcome, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(o.Text, w) {
			return false
		}
	}
	return o.Code == messages.Code_CODE_EXHAUSTED && o.Hint != ""
}

// TestOwnersWaitWithinLimits checks the limit on an owner's waiting jobs, over all queues and including arrays. It does
// not apply to other owners and admins, nor to anyone in a cluster without identities.
func TestOwnersWaitWithinLimits(t *testing.T) {
	a := limitedTo(t, protocol.OwnerLimits{Waiting: 3}, topology.UIDRange{})
	array := func(s *messages.JobSpec) {
		s.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 1, Last: 9, Step: 1}}}
	}
	for i, change := range []func(*messages.JobSpec){plain, array, func(s *messages.JobSpec) { s.Queue = "other" }} {
		if o := a.brings("ann", false, change); o.Code != messages.Code_CODE_OK {
			t.Fatalf("job %d: %v", i+1, o)
		}
	}
	if o := a.brings("ann", false, plain); !isExhausted(o, "3 jobs of ann wait", "at most 3 per owner may wait") {
		t.Errorf("a fourth job: %v", o)
	}
	for _, other := range []string{"bob", messages.Anonymous} {
		for range 5 {
			if o := a.brings(other, other == "bob" && len(a.s.jobs) > 5, plain); o.Code != messages.Code_CODE_OK {
				t.Fatalf("%s: %v", other, o)
			}
		}
	}
	if o := a.brings("ann", true, plain); o.Code != messages.Code_CODE_OK {
		t.Errorf("an admin: %v", o)
	}
	a.tell(protocol.Settled{Job: "j1"})
	a.tell(protocol.Settled{Job: "j2"}) // the array
	if o := a.brings("ann", false, plain); o.Code != messages.Code_CODE_OK {
		t.Errorf("two have ended, and two wait: %v", o)
	}
}

// TestWaitingBytesAreBounded checks the limit on the total size of an owner's waiting jobs.
func TestWaitingBytesAreBounded(t *testing.T) {
	a := limitedTo(t, protocol.OwnerLimits{Bytes: 100 << 10}, topology.UIDRange{})
	large := func(s *messages.JobSpec) {
		s.Env = []*messages.EnvVar{{Name: "A", Value: strings.Repeat("x", 30<<10)}}
	}
	for range 3 {
		if o := a.brings("ann", false, large); o.Code != messages.Code_CODE_OK {
			t.Fatal(o)
		}
	}
	if o := a.brings("ann", false, large); !isExhausted(o, "waiting jobs of ann need 91 KiB",
		"limit per owner is 100 KiB") {
		t.Errorf("a fourth: %v", o)
	}
	if o := a.brings("ann", false, plain); o.Code != messages.Code_CODE_OK {
		t.Errorf("small job: %v", o)
	}
	a.s.idles(&leadertest.Context{Said: &a.said}, a.s.jobs["j1"], false) // it is admitted
	if o := a.brings("ann", false, large); o.Code != messages.Code_CODE_OK {
		t.Errorf("after one job started: %v", o)
	}
	for _, admin := range []bool{false, true} {
		if o := a.brings("ann", admin, large); admin != (o.Code == messages.Code_CODE_OK) {
			t.Errorf("the limit is reached, admin is %v: %v", admin, o)
		}
	}
}

// TestOneOwnerLeavesUIDs checks the share of UIDs that one owner's jobs may hold, and that one in a hundred is reserved
// for admins.
func TestOneOwnerLeavesUIDs(t *testing.T) {
	a := limitedTo(t, protocol.OwnerLimits{UIDPercent: 50}, topology.UIDRange{First: 2_000_000, Last: 2_000_099})
	take := func(owner string, exempt bool, most int) (got int, why string) {
		for got = 0; got < most; got++ {
			e := &livingJob{
				jobRecord: jobRecord{key: requestKey{owner: owner},
					rec: &messages.JobRecord{Owner: &messages.Principal{Name: owner}, Exempt: exempt}},
				ownUID: ownUID{toCome: true},
			}
			if why = a.s.whyNoUID(e); why != "" {
				break
			}
			a.s.giveUID(e)
		}
		return got, why
	}
	if n, why := take("ann", false, 100); n != 50 || !strings.Contains(why, "jobs of ann hold 50 of 50 uids") {
		t.Errorf("ann has %d: %s", n, why)
	}
	if n, why := take("bob", false, 100); n != 49 || !strings.Contains(why, "1 of 100 uids are free, only for admins") {
		t.Errorf("bob has %d: %s", n, why)
	}
	named := &livingJob{jobRecord: jobRecord{rec: &messages.JobRecord{Owner: &messages.Principal{Name: "ann"}}}}
	if why := a.s.whyNoUID(named); why != "" {
		t.Errorf("a job that names a user: %s", why)
	}
	if n, why := take("root", true, 9); n != 1 || !strings.Contains(why, "0 of 100 uids are free") {
		t.Errorf("the admin has %d: %s", n, why)
	}
	a.s.uids.Release(2_000_001)
	a.s.uids.HoldFor(2_000_099, "ann") // held already: it stays with its owner
	if n, _ := take("ann", true, 9); n != 1 || a.s.uids.HeldBy("ann") != 50 {
		t.Errorf("one UID is free again, but ann got %d and has %d", n, a.s.uids.HeldBy("ann"))
	}
}

// TestFewReturnForOneUID checks that one free UID brings only a few of the jobs without one back. Otherwise each pass
// gives capacity to jobs that find no UID, and jobs that need none wait.
func TestFewReturnForOneUID(t *testing.T) {
	a := limitedTo(t, protocol.OwnerLimits{}, topology.UIDRange{First: 2_000_000, Last: 2_000_009})
	for uid := uint32(2_000_000); uid < 2_000_010; uid++ {
		a.s.uids.HoldFor(uid, "")
	}
	for range 40 {
		if o := a.brings("ann", false, plain); o.Code != messages.Code_CODE_OK {
			t.Fatal(o)
		}
	}
	for i := range 40 {
		e := a.s.jobs[topology.JobID(fmt.Sprint("j", i+1))]
		e.toCome, e.pid = true, leadertest.Peers.Journal
		a.tell(protocol.Waits{Record: &messages.JobRecord{
			Id: string(e.id), Spec: leadertest.OneGPU(), UidToCome: true, State: messages.JobState_JOB_STATE_QUEUED}})
	}
	for _, step := range []struct{ free, parked int }{{0, 40}, {1, 40 - uidHopeful}, {9, 0}} {
		for uid := range uint32(step.free) {
			a.s.uids.Release(2_000_000 + uid)
		}
		a.tell(uidDue{})
		if n := len(a.s.uidless.jobs); n != step.parked {
			t.Errorf("%d more UIDs are free: %d jobs wait for one, want %d", step.free, n, step.parked)
		}
	}
}

// TestNoPlaceWithoutUID checks that jobs that find no UID in a pass take no capacity from a job that needs none, not
// even for the time of a message.
func TestNoPlaceWithoutUID(t *testing.T) {
	c := newIdleCourt(t, 1)
	*c.s.uids = *topology.NewUIDs(topology.UIDRange{First: 2_000_000, Last: 2_000_000})
	half := leadertest.OneGPU()
	half.Each = &messages.Resources{MilliGpu: 4000}
	const last = passesInTurn + 2
	for i := range last + 1 {
		rec := &messages.JobRecord{
			Id: fmt.Sprint("j", i), Spec: half, UidToCome: i < last, State: messages.JobState_JOB_STATE_QUEUED,
			Arrival: uint64(i + 1),
		}
		id := topology.JobID(rec.Id)
		c.s.jobs[id] = &livingJob{
			jobRecord: jobRecord{id: id, rec: rec}, ownUID: ownUIDOf(rec),
		}
		c.s.jobs[id].pid = actor.NewPID("here", rec.Id)
		c.hears(protocol.Waits{Record: rec})
	}
	got := map[string]string{}
	ctx := &leadertest.Context{Hears: PlanNow{}, Said: &[]leadertest.Letter{}}
	c.s.Receive(ctx)
	for _, l := range *ctx.Said {
		switch m := l.Message.(type) {
		case protocol.Admit:
			got[l.To] += fmt.Sprint("starts with ", m.UID)
		case protocol.LacksUID:
			got[l.To] += m.Why
		}
	}
	for i := range last + 1 {
		want := "0 of 1 uids are free"
		switch i {
		case 0:
			want = "starts with 2000000"
		case last:
			want = "starts with 0"
		}
		if id := fmt.Sprint("j", i); got[id] != want {
			t.Errorf("job %s: got %q, want %q", id, got[id], want)
		}
	}
	if free, _, held := c.s.View("n0"); free.WholeGPUs != 0 || held != 2 || len(c.s.uidless.jobs) != last-1 {
		t.Errorf("%d GPUs are free, %d attempts are there, %d jobs wait for a UID", free.WholeGPUs, held,
			len(c.s.uidless.jobs))
	}
	c.s.uids.Release(2_000_000) // of the job
	c.s.uids.Release(2_000_000) // of its attempt
	if c.hears(uidDue{}); c.s.queue.Len() != last-1 || len(c.s.uidless.jobs) > 0 {
		t.Errorf("a UID is free: %d jobs return, %d wait for one", c.s.queue.Len(), len(c.s.uidless.jobs))
	}
}

// TestRefusedSubmitsLeaveNothing checks that refused submits keep no memory. A test with a million of them measured no
// growth. This one uses fewer to be quick.
func TestRefusedSubmitsLeaveNothing(t *testing.T) {
	a := limitedTo(t, protocol.OwnerLimits{Waiting: 1}, topology.UIDRange{})
	if o := a.brings("ann", false, plain); o.Code != messages.Code_CODE_OK {
		t.Fatal(o)
	}
	const many = 10_000
	before := inUse()
	spec := leadertest.OneGPU()
	spec.Env = []*messages.EnvVar{{Name: "A", Value: strings.Repeat("x", 60<<10)}}
	for i := range many {
		a.said = a.said[:0]
		a.tell(&messages.Submit{
			Principal: &messages.Principal{Name: "ann"}, RequestId: fmt.Sprint("r", i), Spec: spec,
			AllowInfeasible: true,
		})
		if r, is := a.said[0].Message.(*messages.SubmitReply); !is || r.Outcome.Code != messages.Code_CODE_EXHAUSTED {
			t.Fatalf("submit %d: %v", i, a.said)
		}
	}
	after := inUse()
	t.Logf("%d refused: %d KiB before, %d KiB after", many, before>>10, after>>10)
	if most := uint64(512 << 10); after > before+most {
		t.Errorf("%d refused submits left %d KiB", many, (after-before)>>10)
	}
	runtime.KeepAlive(a)
}

// inUse returns the bytes of live heap objects.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
