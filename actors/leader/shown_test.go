package leader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the test that the Mirror hears of what is acknowledged before
// the client does: whoever is answered may ask at once what became of it.

// overheard is the context of one message to a leader's actor; what it says is noted.
type overheard struct {
	actor.Context
	message any
	said    *[]letter
}

type letter struct {
	to      string
	message any
}

func (c *overheard) Message() any           { return c.message }
func (c *overheard) Self() *actor.PID       { return actor.NewPID("here", "self") }
func (c *overheard) Sender() *actor.PID     { return actor.NewPID("here", "client") }
func (c *overheard) Children() []*actor.PID { return nil }
func (c *overheard) Send(to *actor.PID, message any) {
	*c.said = append(*c.said, letter{to.Id, message})
}
func (c *overheard) Request(to *actor.PID, m any) { c.Send(to, m) }
func (c *overheard) Respond(message any)          { c.Send(c.Sender(), message) }
func (c *overheard) Forward(to *actor.PID)        { c.Send(to, c.message) }
func (c *overheard) Stop(*actor.PID)              {}
func (c *overheard) SpawnNamed(_ *actor.Props, name string) (*actor.PID, error) {
	return actor.NewPID("here", name), nil
}

// deafHost makes nobody and hears nothing.
type deafHost struct{ actors.NoLog }

func (deafHost) Props(_ actors.Kind, make actor.Producer) *actor.Props {
	return actor.PropsFromProducer(make)
}
func (deafHost) Panicked(*actor.PID, any, bool)            {}
func (deafHost) Deposed(uint64)                            {}
func (deafHost) Moved(actors.Kind, string, string, string) {}
func (deafHost) Count(string, int64)                       {}
func (deafHost) Now() actors.Instant                       { return 0 }
func (deafHost) WallMs() int64                             { return 12 * 3600 * 1000 }
func (deafHost) After(time.Duration, *actor.PID, any)      {}

func leaderPorts() *Ports {
	return &Ports{
		Planner: policy.Default{},
		Ports:   actors.Ports{Constants: actors.DefaultConstants(), Clock: deafHost{}, Host: deafHost{}, Log: deafHost{}},
		Calls:   deafHost{},
		Epoch:   1, NewJobID: func() topology.JobID { return "j" },
	}
}

var somePeers = jobPeers{
	scheduler: actor.NewPID("here", "scheduler"), journal: actor.NewPID("here", "journal"), mirror: actor.NewPID("here", "mirror"),
}

func oneGPU() *messages.JobSpec {
	return &messages.JobSpec{
		Name: "x", Image: "host", Command: []string{"true"}, Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}, Each: &messages.Resources{MilliGpu: 1000},
	}
}

// shownBefore wants the Mirror to be shown this phase before the client is answered.
func shownBefore(t *testing.T, said []letter, answer, phase string) {
	t.Helper()
	shown := slices.IndexFunc(said, func(l letter) bool {
		s, is := l.message.(mirror.JobShown)
		return is && l.to == "mirror" && s.Status.Phase == phase
	})
	answered := slices.IndexFunc(said, func(l letter) bool { return l.to == "client" && fmt.Sprintf("%T", l.message) == answer })
	if shown < 0 || answered < 0 || answered < shown {
		t.Errorf("%s was said as number %d, %q shown as number %d", answer, answered, phase, shown)
	}
}

func TestShownBeforeAcknowledged(t *testing.T) {
	who := &messages.Principal{Name: "a"}
	var said []letter
	tell := func(a actor.Actor, m any) {
		a.Receive(&overheard{message: m, said: &said})
	}
	s := newScheduler(leaderPorts()).(*Scheduler)
	s.peers, s.self = somePeers, somePeers.scheduler
	s.states.Become("loaded", schedulerRecovering)
	s.states.Become("waited", schedulerLeading)
	tell(s, &messages.Submit{Principal: who, Spec: oneGPU(), AllowInfeasible: true})
	write := said[len(said)-1].message.(Write)
	tell(s, Written{Tag: write.Tag, Verdict: actors.Done})
	shownBefore(t, said, "*messages.SubmitReply", "queued")

	j := newJob(leaderPorts(), somePeers, 1, write.Change.Job, nil)
	tell(j, &actor.Started{})
	for _, c := range []struct {
		wish          any
		answer, phase string
	}{
		{&messages.Hold{Principal: who, Job: "j"}, "*messages.HoldReply", "held"},
		{&messages.Hold{Principal: who, Job: "j", Release: true}, "*messages.HoldReply", "queued"},
		{&messages.Cancel{Principal: who, Job: "j"}, "*messages.CancelReply", "cancelled"},
	} {
		said = nil
		tell(j, c.wish)
		at := slices.IndexFunc(said, func(l letter) bool { _, is := l.message.(Write); return is })
		if at < 0 {
			t.Fatalf("%T was not written: %v", c.wish, said)
		}
		write := said[at].message.(Write)
		said = nil
		tell(j, Written{Tag: write.Tag, Verdict: actors.Done})
		shownBefore(t, said, c.answer, c.phase)
	}
}

// A job that waits for its preferred level is told of that, and not that it fits.
func TestExplainKnowsPatience(t *testing.T) {
	p := leaderPorts()
	p.Levels = []string{"rack"}
	s := newScheduler(p).(*Scheduler)
	s.peers = somePeers
	for _, n := range []string{"n1", "n2"} {
		s.view.Fabric().Join(topology.Machine{ID: topology.NodeID(n), Place: []string{"rack of " + n}, Total: topology.Resources{MilliGPU: 1000}},
			topology.Capacity{WholeGPUs: 1})
		s.view.Fabric().SetUsable(topology.NodeID(n), "")
	}
	spec := oneGPU()
	spec.Gang.ReplicasMin, spec.Gang.ReplicasMax = 2, 2
	spec.Topology = &messages.TopologySpec{Preferred: "rack", PatienceMs: 60_000}
	s.queue.Add(policy.Waiting{Job: "j", Gang: messages.GangOf(spec), Patience: 60e9})
	var said []letter
	s.Receive(&overheard{message: &messages.ExplainJob{Job: "j"}, said: &said})
	got := said[0].message.(*messages.ExplainJobReply).Text
	if want := "waits for its preferred rack: needs 2 GPUs"; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("explained as %q", got)
	}
}
