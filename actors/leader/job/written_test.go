package job

import (
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// TestAnswerToAPredecessor checks a recreated Job, which has its predecessor's name and gets the answers to the
// predecessor's writes. These answers do not count for its own writes, and nothing is acknowledged before its own
// answer.
func TestAnswerToAPredecessor(t *testing.T) {
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
	j := New(leadertest.Ports(), leadertest.Peers, 2, rec, nil, nil).(*Job)
	var said []leadertest.Letter
	tell := func(m any) {
		said = nil
		j.Receive(&leadertest.Context{Hears: m, Said: &said})
	}
	answered := func() bool {
		return slices.ContainsFunc(said, func(l leadertest.Letter) bool { return l.To == "client" })
	}
	tell(&actor.Started{})
	tell(&messages.Hold{Principal: &messages.Principal{Name: "a"}, Job: "j1"})
	at := slices.IndexFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Write); return is })
	if at < 0 {
		t.Fatalf("nothing is written: %v", said)
	}
	write := said[at].Message.(protocol.Write)
	if tell(protocol.Written{Tag: uint64(1<<32 | 1), Verdict: actors.Done}); answered() {
		t.Error("the client gets the answer before the hold is on disk")
	}
	if tell(protocol.Written{Tag: write.Tag, Verdict: actors.Done}); !answered() {
		t.Error("the client gets no answer although the hold is on disk")
	}
}
