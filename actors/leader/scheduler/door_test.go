package scheduler

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
)

// TestOnlyDescribedQueuesTakeJobs checks that a job of an unknown queue is refused with the names of the configured
// ones, by a submit and by a dry run. Without configured queues, every name is accepted.
func TestOnlyDescribedQueuesTakeJobs(t *testing.T) {
	a := newApplied(t)
	a.s.states.Become("all heard", schedulerLeading)
	describe := func(usual string) {
		a.s.goBy(&leadertest.Context{Said: &a.said}, &messages.QueuesRecord{Revision: 1, Queues: &messages.Queues{
			Default: usual, Queues: []*messages.QueueSpec{{Name: "nlp"}, {Name: "vision"}},
		}})
	}
	refused := func(queue string) bool {
		t.Helper()
		spec := leadertest.OneGPU()
		spec.Queue = queue
		var both [2]bool
		a.tell(&messages.Submit{Principal: &messages.Principal{Name: "ann"}, Spec: spec, AllowInfeasible: true})
		for _, l := range a.said {
			if r, is := l.Message.(*messages.SubmitReply); is && r.Outcome.Field == "spec.queue" {
				both[0] = r.Outcome.Code == messages.Code_CODE_INVALID && strings.Contains(r.Outcome.Hint, "nlp, vision")
			}
		}
		a.tell(&messages.DryRun{Principal: &messages.Principal{Name: "ann"}, Spec: spec, AllowInfeasible: true})
		for _, l := range a.said {
			if r, is := l.Message.(*messages.DryRunReply); is && r.Outcome.Field == "spec.queue" {
				both[1] = true
			}
		}
		if both[0] != both[1] {
			t.Errorf("queue %q: a submit and a dry run differ: %v", queue, both)
		}
		return both[0]
	}
	if refused("old") || refused("") {
		t.Error("no queues are configured, but a job is refused")
	}
	describe("")
	if !refused("old") || !refused("") || refused("nlp") {
		t.Error("not exactly the queues that are described take jobs")
	}
	describe("vision")
	if refused("") {
		t.Error("there is a default, and a job that names no queue is refused")
	}
}
