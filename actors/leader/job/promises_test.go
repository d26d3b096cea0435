package job

import (
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of writing and reading start guarantees.

// promisedJob is the Job of a waiting job, with the messages that it sends.
type promisedJob struct {
	*Job
	said []leadertest.Letter
}

func newPromisedJob() *promisedJob {
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
	j := &promisedJob{Job: New(leadertest.Ports(), leadertest.Peers, 1, rec, nil, nil).(*Job)}
	j.tell(&actor.Started{})
	return j
}

func (j *promisedJob) tell(m any) {
	j.said = nil
	j.Receive(&leadertest.Context{Hears: m, Said: &j.said})
}

// writes returns the record that the Job has just written, or nil. The write then counts as done.
func (j *promisedJob) writes() *messages.JobRecord {
	at := slices.IndexFunc(j.said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Write); return is })
	if at < 0 {
		return nil
	}
	w := j.said[at].Message.(protocol.Write)
	j.tell(protocol.Written{Tag: w.Tag, Verdict: actors.Done})
	return w.Change.Job
}

// toldOf reports whether the Job has just reported that this guarantee is on disk.
func (j *promisedJob) toldOf(p *messages.Promise) bool {
	return slices.ContainsFunc(j.said, func(l leadertest.Letter) bool {
		m, is := l.Message.(protocol.PromiseWritten)
		return is && m.Promise == p
	})
}

// TestPromiseIsWritten checks that a start guarantee is written to the job's record once, and its removal once. A hold,
// a cancel or a COMMIT also removes it.
func TestPromiseIsWritten(t *testing.T) {
	p := leadertest.Promise()
	for name, end := range map[string]func(j *promisedJob){
		"given up": func(j *promisedJob) { j.tell(protocol.Promised{}) },
		"held":     func(j *promisedJob) { j.tell(&messages.Hold{Job: "j1", Principal: &messages.Principal{Name: "a"}}) },
		"cancelled": func(j *promisedJob) {
			j.tell(&messages.Cancel{Job: "j1", Principal: &messages.Principal{Name: "a"}})
		},
		"committed": func(j *promisedJob) {
			token := topology.Token{Epoch: 1, Counter: 7}
			j.tell(protocol.Admit{Token: token, Told: p.Told, Promised: true})
			j.tell(protocol.Granted{Token: token, DecideBy: 1 << 62, Places: []*messages.Place{{Node: "n1", MachineId: "m1"}}})
		},
	} {
		j := newPromisedJob()
		j.tell(protocol.Promised{Promise: p})
		if j.toldOf(p) {
			t.Errorf("%s: reported to be on disk too early", name)
		}
		if rec := j.writes(); rec == nil || !proto.Equal(rec.Promise, p) || !j.toldOf(p) {
			t.Fatalf("%s: wrote %v, sent %v", name, rec, j.said)
		}
		j.tell(protocol.Promised{Promise: p})
		if rec := j.writes(); rec != nil || !j.toldOf(p) {
			t.Errorf("%s: the same guarantee is written again, or not reported", name)
		}
		end(j)
		if rec := j.writes(); rec == nil || rec.Promise != nil || !j.toldOf(nil) {
			t.Errorf("%s: wrote %v, sent %v", name, rec, j.said)
		}
		redeems := slices.ContainsFunc(j.said, func(l leadertest.Letter) bool {
			_,
				is := l.Message.(protocol.Redeemed)
			return is
		})
		if redeems != (name == "committed") || name == "committed" && !proto.Equal(j.last.GetTold(), p.Told) {
			t.Errorf("%s: record has %v, attempt has estimate %v", name, j.said, j.last.GetTold())
		}
		j.tell(protocol.Promised{})
		if rec := j.writes(); rec != nil || j.rec.State == messages.JobState_JOB_STATE_QUEUED && !j.toldOf(nil) {
			t.Errorf("%s: the removal is written again, or not reported", name)
		}
	}
	j := newPromisedJob()
	j.tell(&messages.Hold{Job: "j1", Principal: &messages.Principal{Name: "a"}})
	if j.writes(); j.rec.Hold == nil {
		t.Fatal("it is not held")
	}
	if j.tell(protocol.Promised{Promise: p}); j.writes() != nil {
		t.Error("a guarantee from before the hold is written after it")
	}
}

// TestPromiseAges checks a guarantee that waited for an earlier write. It is written with the time that is left by
// then, and still counts as the requested one.
func TestPromiseAges(t *testing.T) {
	first, second, clock := leadertest.Promise(), leadertest.Promise(), &leadertest.Clock{}
	j := newPromisedJob()
	j.p.Clock = clock
	j.tell(protocol.Promised{Promise: first})
	write := j.said[len(j.said)-1].Message.(protocol.Write)
	j.tell(protocol.Promised{Promise: second})
	clock.At = clock.At.Plus(50 * time.Second)
	j.tell(protocol.Written{Tag: write.Tag, Verdict: actors.Done})
	rec := j.writes()
	if rec.GetPromise().GetLeftMs() != 10_000 || second.LeftMs != 60_000 {
		t.Errorf("written is %v, of %v", rec, second)
	}
	for range 2 {
		if m, is := j.said[0].Message.(protocol.PromiseWritten); !is || m.Promise != rec.Promise || m.Asked != second {
			t.Errorf("sent %v", j.said)
		}
		clock.At = clock.At.Plus(time.Second)
		j.tell(protocol.Promised{Promise: second})
		if j.writes() != nil {
			t.Error("the same promise is written again")
		}
	}
}
