package gateway

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// TestSubmitCopy checks that the scheduler copies a job with its command, environment and script for a client that
// sends only the ID, that a repeated request makes one copy, and that secrets are not copied.
func TestSubmitCopy(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	d := r.door(s, Options{Store: memory, Scripts: memory, Leader: func() Leader { return Leader{Here: true, Epoch: 1} }})
	submit := func(q *messages.Submit) (string, error) {
		q.AllowInfeasible = true
		reply, err := d.SynapseClient.Submit(timely(t), q)
		return reply.GetJob(), err
	}
	first := gpuJob("train", 1, 1)
	first.Env = []*messages.EnvVar{{Name: "LR", Value: "3"}}
	id, err := submit(&messages.Submit{RequestId: "a", Spec: first})
	if err != nil {
		t.Fatal(err)
	}
	again := &messages.Submit{RequestId: "b", Job: id, WebSource: messages.WebAgain}
	copied, err := submit(again)
	repeated, failed := submit(again)
	if err != nil || failed != nil || copied == id || repeated != copied {
		t.Fatalf("%s was copied as %s and %s: %v %v", id, copied, repeated, err, failed)
	}
	same(t, memory, id, copied)

	script := bringing(t, "#!/bin/sh\necho $1\n")
	reply, err := d.SynapseClient.SubmitScript(timely(t), &messages.Submit{Spec: script, AllowInfeasible: true})
	if err != nil {
		t.Fatal(err)
	}
	if copied, err = submit(&messages.Submit{Job: reply.GetJob()}); err != nil {
		t.Fatal(err)
	}
	same(t, memory, reply.GetJob(), copied)

	_, err = submit(&messages.Submit{Job: "none"})
	refused(t, err, messages.Code_CODE_NOT_FOUND, codes.NotFound, "none")
	_, err = submit(&messages.Submit{Job: id, WebSource: "anything"})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "web UI")
}

// same checks that two jobs have the same spec.
func same(t *testing.T, memory *store.Memory, first, copied string) {
	t.Helper()
	one, _, err := memory.Job(topology.JobID(first))
	other, _, failed := memory.Job(topology.JobID(copied))
	if err != nil || failed != nil || !proto.Equal(one.GetSpec(), other.GetSpec()) {
		t.Errorf("%v was copied as %v: %v %v", one.GetSpec(), other.GetSpec(), err, failed)
	}
}
