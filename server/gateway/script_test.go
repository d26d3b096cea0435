package gateway

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// bringing returns a job with this script.
func bringing(t *testing.T, text string) *messages.JobSpec {
	t.Helper()
	spec := gpuJob("train", 1, 1)
	var err error
	if spec.Script, err = messages.NewScript("train.sh", []byte(text)); err != nil {
		t.Fatal(err)
	}
	spec.Command, spec.Script.Args = nil, []string{"--lr", "3"}
	return spec
}

// TestSubmitScript checks that a script is in the store before its job, nowhere else, and readable by its digest. A
// script that cannot run, does not match its digest, or reaches a deposed leader is refused and creates no job.
func TestSubmitScript(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	epoch := uint64(1)
	d := r.door(s, Options{
		Store: memory, Scripts: memory, Leader: func() Leader { return Leader{Here: true, Epoch: epoch} },
	})
	const text = "#!/bin/sh\necho $1\n"
	spec := bringing(t, text)
	digest := spec.Script.Digest
	first := &messages.Submit{RequestId: "r", Spec: spec, AllowInfeasible: true}
	reply, err := d.SynapseClient.SubmitScript(timely(t), first)
	if err != nil {
		t.Fatal(err)
	}
	stored, _, err := memory.Job(topology.JobID(reply.Job))
	shown, failed := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: reply.Job})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for _, kept := range []*messages.JobRecord{stored, shown.Job.Record} {
		k := kept.Spec.Script
		if k.Digest != digest || len(k.Text) != 0 || len(k.Args) != 2 || k.SizeBytes != int64(len(text)) {
			t.Errorf("it is kept as %v", k)
		}
	}
	read, err := d.SynapseClient.ReadScript(timely(t), &api.ReadScript{Digest: digest})
	if err != nil || string(read.Text) != text {
		t.Errorf("read as %q: %v", read.GetText(), err)
	}

	refuse := func(spec *messages.JobSpec, words string) {
		t.Helper()
		_, err := d.SynapseClient.SubmitScript(timely(t), &messages.Submit{Spec: spec, AllowInfeasible: true})
		refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, words)
	}
	other, windows, large := bringing(t, text+"#\n"), bringing(t, text), bringing(t, text)
	unkept := other.Script.Digest
	other.Script.Text = []byte(text)
	refuse(other, "does not match the text")
	windows.Script.Text = bytes.ReplaceAll(windows.Script.Text, []byte("\n"), []byte("\r\n"))
	refuse(windows, "Windows line endings")
	large.Script.Text = append(large.Script.Text, bytes.Repeat([]byte("#"), messages.MaxScriptBytes)...)
	refuse(large, "is larger than")
	refuse(spec.Bare(), "is missing")
	refuse(gpuJob("none", 1, 1), "is missing")
	if _, err := memory.Script(unkept); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was refused is kept: %v", err)
	}
	_, err = d.SynapseClient.Submit(timely(t), &messages.Submit{Spec: spec.Bare(), AllowInfeasible: true})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "needs its text")
	_, err = d.SynapseClient.ReadScript(timely(t), &api.ReadScript{Digest: unkept})
	refused(t, err, messages.Code_CODE_NOT_FOUND, codes.NotFound, "unknown script digest")
	_, err = d.SynapseClient.ReadScript(timely(t), &api.ReadScript{Digest: "../" + digest})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "digest")

	epoch = 7 // of another leader
	late := &messages.Submit{RequestId: "late", Spec: bringing(t, text), AllowInfeasible: true}
	_, err = d.SynapseClient.SubmitScript(timely(t), late)
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "store does not answer")
	if _, _, err := memory.Requested("anonymous", "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its job: %v", err)
	}
}
