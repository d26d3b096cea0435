package gateway

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestOwnJob checks that a task can show, requeue and cancel its own job through its node, in the name of the job's
// owner. Other nodes, other ranks and earlier attempts are refused.
func TestOwnJob(t *testing.T) {
	node := "n1"
	d, _, id := executing(t, Options{Machine: func(context.Context) string { return node }})
	status := func() *messages.JobStatus {
		reply, err := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: id})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetJob()
	}
	first := status().GetAttempt().GetToken()
	asks := func(verb api.OwnVerb, attempt *messages.Token, rank int32) (*api.OwnJobReply, error) {
		return d.SynapseClient.OwnJob(timely(t), &api.OwnJob{Job: id, Attempt: attempt, Rank: rank, Verb: verb})
	}
	const show, requeue, cancel = api.OwnVerb_OWN_VERB_SHOW, api.OwnVerb_OWN_VERB_REQUEUE, api.OwnVerb_OWN_VERB_CANCEL

	reply, err := asks(show, first, 0)
	if err != nil || reply.GetJob().GetRecord().GetId() != id || reply.GetJob().GetPhase() != messages.PhaseRunning {
		t.Fatalf("%v, %v", reply, err)
	}
	node = "n2"
	_, err = asks(requeue, first, 0)
	refused(t, err, messages.Code_CODE_NOT_ALLOWED, codes.PermissionDenied, "does not run on the calling node")
	node = "n1"
	_, err = asks(requeue, first, 1)
	refused(t, err, messages.Code_CODE_NOT_ALLOWED, codes.PermissionDenied, "does not run on the calling node")
	_, err = asks(0, first, 0)
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "verb")
	_, err = asks(cancel, nil, 0)
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "attempt")
	if status().GetAttempt().GetEnd() != nil {
		t.Fatal("a refused request ended the attempt")
	}

	if _, err := asks(requeue, first, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool {
		j := status()
		return j.GetRecord().GetRuns() == 2 && j.GetPhase() == messages.PhaseRunning
	})
	_, err = asks(cancel, first, 0)
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "not the current one")
	if _, err := asks(cancel, status().GetAttempt().GetToken(), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is cancelled", func() bool { return d.phase(id) == messages.PhaseCancelled })
	if by := status().GetRecord().GetCancel().GetBy().GetName(); by != status().GetRecord().GetOwner().GetName() {
		t.Errorf("cancelled by %q", by)
	}
}

// TestMayChange checks that a requeue whose answer was lost succeeds when it is repeated, and that an ended attempt
// permits nothing else.
func TestMayChange(t *testing.T) {
	token := &messages.Token{Epoch: 2, Counter: 5}
	job := &messages.JobStatus{
		Record: &messages.JobRecord{Id: "job", State: messages.JobState_JOB_STATE_ACTIVE},
		Attempt: &messages.AttemptRecord{Token: token, Places: []*messages.Place{{Rank: 0, Node: "n1"}},
			End: &messages.End{Cause: messages.Cause_CAUSE_REQUEUED}},
	}
	asks := func(verb api.OwnVerb, of *messages.Token, node string) error {
		return mayChange(job, &api.OwnJob{Job: "job", Attempt: of, Verb: verb}, node, true)
	}
	if err := asks(api.OwnVerb_OWN_VERB_REQUEUE, token, "n1"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another verb":    asks(api.OwnVerb_OWN_VERB_CANCEL, token, "n1"),
		"another node":    asks(api.OwnVerb_OWN_VERB_REQUEUE, token, "n2"),
		"another attempt": asks(api.OwnVerb_OWN_VERB_REQUEUE, &messages.Token{Epoch: 2, Counter: 4}, "n1"),
	} {
		if err == nil {
			t.Errorf("%s was permitted", what)
		}
	}
	if job.Attempt.End.Cause = messages.Cause_CAUSE_MACHINE_LOST; asks(api.OwnVerb_OWN_VERB_REQUEUE, token, "n1") == nil {
		t.Error("an attempt with another end was requeued")
	}
}
