package scheduler

import (
	"reflect"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of failed reads of the store. Each query is repeated, or the waiting client is asked to
// retry, and nothing counts as lost.

// seat is a host that records a deposition.
type seat struct {
	leadertest.Host
	deposed bool
}

func (h *seat) Deposed(uint64) { h.deposed = true }

// failedRead is a Scheduler with an unanswered query.
type failedRead struct {
	s    *Scheduler
	why  find
	want any // action to be scheduled; nil: the client gets an answer
}

func newFailedRead(clock *alarms, host *seat) *failedRead {
	p := leadertest.Ports()
	p.Clock, p.Host = clock, host
	s := New(p, Makers{}).(*Scheduler)
	s.self, s.peers = actor.NewPID("here", "scheduler"), leadertest.Peers
	return &failedRead{s: s}
}

// fresh is a submit whose client waits.
func (f *failedRead) fresh() *livingJob {
	rec := &messages.JobRecord{Id: "j", Owner: &messages.Principal{Name: "ann"}, Spec: leadertest.OneGPU()}
	e := &livingJob{jobRecord: jobRecord{id: "j", rec: rec},
		jobActor: jobActor{askers: []*actor.PID{actor.NewPID("here", "client")}}}
	f.s.jobs["j"] = e
	return e
}

// orphan is an attempt that a node has and that no actor here knows.
func (f *failedRead) orphan() orphan {
	o := orphan{node: "n1", job: "j", token: topology.Token{Epoch: 1, Counter: 7}}
	m := f.s.machine(o.node)
	m.up = true
	m.ledger = &messages.LedgerReport{Slices: []*messages.SliceReport{{Job: "j", Token: messages.ToToken(o.token)}}}
	f.s.behind.asked[o], f.s.behind.open = true, 1
	return o
}

// TestFailedReadsLoseNothing tests every reason of a query for a job. A new reason needs a line here.
func TestFailedReadsLoseNothing(t *testing.T) {
	query := actors.Query{Job: "j", Ticket: 1}
	asks := map[string]func(*failedRead){
		"job":      func(f *failedRead) { f.fresh().remakes = true; f.why.job, f.want = "j", remake{"j"} },
		"submit":   func(f *failedRead) { f.why.submit = f.fresh() },
		"sought":   func(f *failedRead) { f.why.sought = f.fresh() },
		"follower": func(f *failedRead) { f.fresh().pid = f.s.self; f.why.follower = "j"; f.want = askAgain{f.why, query} },
		"unborn": func(f *failedRead) {
			f.fresh().pid = f.s.self
			f.why = find{follower: "j", unborn: "a_3"}
			f.want = askAgain{f.why, query}
		},
		"element": func(f *failedRead) { f.why.element = f.fresh(); f.want = askAgain{f.why, query} },
		"probed":  func(f *failedRead) { f.why.probed = &protocol.Probe{Array: "j", Index: 3}; f.want = *f.why.probed },
		"orphan": func(f *failedRead) {
			o := f.orphan()
			f.why.orphan, f.want = &o, askOrphan{o}
		},
	}
	reasons := reflect.TypeFor[find]()
	for i := range reasons.NumField() {
		name := reasons.Field(i).Name
		if asks[name] == nil {
			t.Errorf("nothing tries a failed read that was made for the reason %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock, host := &alarms{}, &seat{}
			f := newFailedRead(clock, host)
			asks[name](f)
			var said []leadertest.Letter
			f.s.finds[1] = f.why
			f.s.onFound(&leadertest.Context{Said: &said}, actors.Found{Query: query, Err: "the disk is away"})
			if host.deposed {
				t.Error("the leader gave up")
			}
			if f.want == nil {
				told := slices.ContainsFunc(said, func(l leadertest.Letter) bool {
					reply, is := l.Message.(*messages.SubmitReply)
					return is && l.To == "client" && reply.Outcome.Code == messages.Code_CODE_UNAVAILABLE
				})
				if !told {
					t.Errorf("the client is not asked to retry: %v", said)
				}
				return
			}
			if len(said) > 0 || !slices.Contains(clock.later, f.want) {
				t.Errorf("timer is %v, want %v; sent %v", clock.later, f.want, said)
			}
			if len(f.s.machines) > 0 && len(f.s.machines["n1"].strange) > 0 {
				t.Error("an attempt counts as missing in the store")
			}
		})
	}
}

// TestFailedLoadIsRepeated checks a leader that cannot read the store at its start or later. It does nothing until it
// can.
func TestFailedLoadIsRepeated(t *testing.T) {
	for name, edit := range map[string]func(*Scheduler){
		"at the beginning": func(*Scheduler) {},
		"again": func(s *Scheduler) {
			s.states.Become("loaded", schedulerRecovering)
			m := s.machine("n1")
			m.record, m.edits.reread = &messages.NodeRecord{Id: "n1", Revision: 2}, true
			s.order = []*machine{m}
		},
	} {
		clock, host := &alarms{}, &seat{}
		s := newFailedRead(clock, host).s
		edit(s)
		loading := s.states.In(schedulerLoading)
		var said []leadertest.Letter
		s.onLoaded(&leadertest.Context{Said: &said}, actors.Loaded{Err: "the disk is away"})
		if host.deposed || len(said) > 0 || s.states.In(schedulerLoading) != loading || len(clock.later) != 1 ||
			clock.later[0] != (retryLoad{}) {
			t.Errorf("%s: timer is %v, sent %v, gave up: %t", name, clock.later, said, host.deposed)
		}
	}
}
