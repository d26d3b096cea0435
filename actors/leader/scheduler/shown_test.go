package scheduler

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the tests that the Mirror receives each change before the client gets its answer, because the client
// may query the result at once. It also owns the tests that the Mirror gives the same reasons as the Scheduler.

// TestJobIsToldWhomToAnswer checks that a Job receives the waiting clients when its submit is on disk.
func TestJobIsToldWhomToAnswer(t *testing.T) {
	who := &messages.Principal{Name: "a"}
	var said []leadertest.Letter
	tell := func(a actor.Actor, m any) {
		a.Receive(&leadertest.Context{Hears: m, Said: &said})
	}
	s := New(leadertest.Ports(), Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	s.states.Become("loaded", schedulerRecovering)
	s.states.Become("waited", schedulerLeading)
	tell(s, &messages.Submit{Principal: who, Spec: leadertest.OneGPU(), AllowInfeasible: true})
	write := said[len(said)-1].Message.(protocol.Write)
	tell(s, protocol.Written{Tag: write.Tag, Verdict: actors.Done})
	at := slices.IndexFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Acknowledge); return is })
	if at < 0 {
		t.Fatalf("the Job does not get its clients: %v", said)
	}
}

// pair is a leading Scheduler with its Mirror.
type pair struct {
	*Scheduler
	mirror *mirror.Mirror
	told   []mirror.RoomsShown
}

func newPair(clock actors.Clock, levels ...string) *pair {
	p := leadertest.Ports()
	p.Levels, p.Clock = levels, clock
	s := New(p, Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	s.states.Become("loaded", schedulerRecovering)
	s.states.Become("waited", schedulerLeading)
	s.view.Tree().Lead()
	return &pair{Scheduler: s, mirror: mirror.New(&p.Ports, 1, levels).(*mirror.Mirror)}
}

// tell sends the Scheduler a message, and passes its messages to the Mirror.
func (p *pair) tell(message any) {
	var said []leadertest.Letter
	p.Receive(&leadertest.Context{Hears: message, Said: &said})
	for _, l := range said {
		if l.To == "mirror" {
			p.mirror.Receive(&leadertest.Context{Hears: l.Message, Said: &[]leadertest.Letter{}})
		}
		if r, is := l.Message.(mirror.RoomsShown); is {
			p.told = append(p.told, r)
		}
	}
}

// waits adds a waiting job, as its Job would.
func (p *pair) waits(id string, arrival uint64, spec *messages.JobSpec) {
	rec := &messages.JobRecord{Id: id, Arrival: arrival, Spec: spec}
	p.jobs[topology.JobID(id)] = &livingJob{
		jobRecord: jobRecord{id: topology.JobID(id), rec: rec}, queueEntry: queueEntry{noted: true},
		jobActor: jobActor{pid: actor.NewPID("here", id)},
	}
	p.mirror.Receive(
		&leadertest.Context{Hears: mirror.JobShown{Status: &messages.JobStatus{Record: rec, Phase: messages.PhaseQueued}},
			Said: &[]leadertest.Letter{}})
	p.tell(protocol.Waits{Record: rec})
	p.tell(PlanNow{})
}

// machine adds a node whose resources are all free.
func (p *pair) machine(id string) *topology.Tree {
	f := p.view.Tree()
	f.Join(topology.Machine{ID: topology.NodeID(id), Place: []string{"rack of " + id},
		Total: topology.Resources{MilliGPU: 1000}}, topology.Capacity{WholeGPUs: 1})
	p.Scheduler.machine(topology.NodeID(id)).record = &messages.NodeRecord{Id: id}
	return f
}

// explained returns the Mirror's facts, which must be those of the Scheduler's view.
func (p *pair) explained(t *testing.T, job topology.JobID) policy.Answer {
	t.Helper()
	got, ok := p.mirror.Explain(job)
	if want, waits := p.Explain(job); !reflect.DeepEqual(got, want) || ok != waits {
		t.Errorf("the Mirror answers %+v, the Scheduler would have answered %+v", got, want)
	}
	return got
}

// TestExplainKnowsPatience checks that the explanation of a job which waits for its preferred level names the wait, and
// not that the job fits.
func TestExplainKnowsPatience(t *testing.T) {
	p := newPair(leadertest.Host{}, "rack")
	p.machine("n1")
	p.machine("n2")
	spec := leadertest.OneGPU()
	spec.Gang.ReplicasMin, spec.Gang.ReplicasMax = 2, 2
	spec.Topology = &messages.TopologySpec{Preferred: "rack", PatienceMs: 60_000}
	p.waits("j", 1, spec)
	if got := p.explained(t, "j").Refusal.String(); !strings.HasPrefix(got, "prefers one rack: needs 2 GPUs") {
		t.Errorf("explained as %q", got)
	}
}

// TestMirrorAnswersAsTheScheduler checks that the Mirror's explanations follow changes of the holders, the jobs ahead,
// and closed nodes.
func TestMirrorAnswersAsTheScheduler(t *testing.T) {
	clock := &watchClock{now: actors.Instant(time.Hour)}
	p := newPair(clock)
	f := p.machine("n1")
	p.waits("first", 1, leadertest.OneGPU())
	if _, waits := p.mirror.Explain("first"); waits || p.queue.Len() > 0 {
		t.Fatal("the first job found no room")
	}
	p.waits("j", 2, leadertest.OneGPU())
	p.waits("k", 3, leadertest.OneGPU())
	later := func() {
		clock.now = clock.now.Plus(roomsEvery)
		p.tell(showAgain{})
	}
	later()
	const short = "needs 1 GPU; the cluster has 0 free of 1"
	for id, ahead := range map[topology.JobID]int{"j": 0, "k": 1} {
		got := p.explained(t, id)
		if got.Refusal.String() != short || got.Standing != (policy.Standing{Ahead: ahead, Waiting: 2}) ||
			len(got.Holders) != 1 || got.Holders[0].Job != "first" || got.Holders[0].Amount.MilliGPU != 1000 {
			t.Errorf("%s: %s, %+v", id, got.Refusal, got)
		}
	}
	f.SetUsable("n1", "drained by ann")
	p.view.Tree().Keep("big",
		topology.Placement{Slots: []topology.Slot{{Node: "n1", Amount: topology.Resources{MilliGPU: 1000}}}})
	p.tell(protocol.Withdraws{Job: "j"})
	later()
	out := []topology.OutOfService{{Node: "n1", Why: "drained by ann"}}
	if got := p.explained(t, "k"); !slices.Equal(got.Out, out) || got.Standing != (policy.Standing{Waiting: 1}) ||
		len(got.Kept) != 1 {
		t.Errorf("k: %+v", got)
	}
	p.machines["n1"].room.Evict(p.machines["n1"].room.Tenants()[0].Token)
	later()
	if got := p.explained(t, "k"); len(got.Holders) > 0 {
		t.Errorf("k: %+v", got)
	}
	p.view.Remove(p.machines["n1"].room)
	later()
	p.explained(t, "k")
}

// TestRoomsAreToldNowAndThen checks that the Mirror gets at most ten updates a second, and none without a change.
func TestRoomsAreToldNowAndThen(t *testing.T) {
	clock := &watchClock{now: actors.Instant(time.Hour)}
	p := newPair(clock)
	f := p.machine("n1")
	p.tell(endBackOff{Node: "unknown"})
	if len(p.told) != 1 || len(p.told[0].Machines) != 1 {
		t.Fatalf("updates are %v", p.told)
	}
	clock.now = clock.now.Plus(30 * time.Millisecond)
	for i := range 100 {
		f.SetFree("n1", topology.Capacity{MilliCPU: int64(i)})
		p.tell(endBackOff{Node: "unknown"})
	}
	if len(p.told) != 1 || len(clock.set) != 1 || clock.set[0] != 70*time.Millisecond {
		t.Fatalf("%d updates, timers %v", len(p.told), clock.set)
	}
	clock.now = clock.now.Plus(70 * time.Millisecond)
	p.tell(showAgain{})
	if len(p.told) != 2 || len(p.told[1].Machines) != 1 || p.told[1].Machines[0].Free.MilliCPU != 99 {
		t.Fatalf("updates are %v", p.told)
	}
	clock.now = clock.now.Plus(time.Hour)
	p.tell(endBackOff{Node: "unknown"})
	if len(p.told) != 2 || len(clock.set) != 1 {
		t.Errorf("nothing has changed, but there are %d updates, timers %v", len(p.told), clock.set)
	}
}

// BenchmarkRoomsShown measures one update: the changes of a tenth of a second by a hundred gangs a second, each on 8 of
// 10,000 nodes.
func BenchmarkRoomsShown(b *testing.B) {
	machines := 10_000
	if testing.Short() {
		machines = 1_000
	}
	clock := &watchClock{now: actors.Instant(time.Hour)}
	p := newPair(clock, "rack")
	for i := range machines {
		p.machine(fmt.Sprintf("n%05d", i))
	}
	p.tell(showAgain{})
	p.told = nil
	amount := topology.Resources{MilliGPU: 1000}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for n := range 80 {
			id := topology.NodeID(fmt.Sprintf("n%05d", (i/2*80+n)%machines))
			who := belief.Lodger{Token: topology.Token{Epoch: 1, Counter: uint64(i / 2)}, Job: "train"}
			slot := topology.Placement{Slots: []topology.Slot{{Node: id, Amount: amount}}}
			if i%2 == 0 {
				p.view.Tree().Take(slot)
				p.machines[id].room.Claim(&who, amount)
			} else {
				p.view.Tree().Give(slot)
				p.machines[id].room.Evict(who.Token)
			}
		}
		clock.now = clock.now.Plus(roomsEvery)
		p.tell(showAgain{})
		if len(p.told) != 1 || len(p.told[0].Machines) != 80 {
			b.Fatalf("%d updates", len(p.told))
		}
		p.told = p.told[:0]
	}
}
