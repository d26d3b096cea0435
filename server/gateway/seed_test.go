package gateway

// This file tests the call of the first clients.

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestFirstClients makes the call with the original client's wire format.
func TestFirstClients(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	r.join("a", s)
	eventually(t, "a is up", func() bool { return d.nodes() == 1 })
	ctx := timely(t)
	seed := api.NewSchedulerClient(d.conn)
	q := &api.SubmitJobRequest{Id: "job-180751", Image: "ubuntu:latest", MinCpu: 96, MinMemory: 128 << 20}
	if _, err := seed.SubmitJob(ctx, q); api.OutcomeOf(err).GetCode() != messages.Code_CODE_INFEASIBLE {
		t.Errorf("what no cluster can hold: %v", err)
	}
	r.join("b", s)
	eventually(t, "b is up", func() bool { return d.nodes() == 2 })
	reply, err := seed.SubmitJob(ctx, q)
	if err != nil || !reply.Success || reply.Message != "Job queued successfully" || reply.JobId == "" {
		t.Fatal(reply, err)
	}
	if again, err := seed.SubmitJob(ctx, q); err != nil || again.JobId != reply.JobId {
		t.Errorf("asked again: %v, %v", again, err)
	}
	eventually(t, "it runs", func() bool { return d.phase(reply.JobId) == "running" })
	job, err := d.SynapseClient.GetJob(ctx, &messages.GetJob{Job: reply.JobId})
	if err != nil || job.Job.Record.Spec.Name != "job-180751" || len(job.Job.Attempt.Places) != 2 {
		t.Errorf("it became %v, %v", job, err)
	}
	if lines := r.said("[GRPC] Job Submitted"); !slices.Equal(lines,
		[]string{"[GRPC] Job Submitted: " + reply.JobId + " (CPU: 96, GPU: 0)"}) {
		t.Errorf("the log says %q", lines)
	}
	for _, c := range []struct {
		q     *api.SubmitJobRequest
		words string
	}{
		{&api.SubmitJobRequest{}, "id: is missing"},
		{&api.SubmitJobRequest{Id: "a b", Image: "x", MinCpu: 1}, "request_id"},
		{&api.SubmitJobRequest{Id: "x", MinCpu: 1}, "spec.image"},
		{&api.SubmitJobRequest{Id: "x", Image: "x"}, "spec.gang.total"},
		{&api.SubmitJobRequest{Id: "x", Image: "x", MinCpu: -1}, "min_cpu: is -1, and must not be negative"},
		{&api.SubmitJobRequest{Id: "x", Image: "x", MinMemory: -1}, "min_memory"},
		{&api.SubmitJobRequest{Id: "x", Image: "x", MinGpu: -1}, "min_gpu"},
	} {
		_, err := seed.SubmitJob(ctx, c.q)
		refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, c.words)
	}
	if name := seedName("Job_ü 1" + strings.Repeat("x", 100)); len(name) != messages.MaxNameBytes ||
		!strings.HasPrefix(name, "job----1xxx") && !strings.HasPrefix(name, "job---1xxx") {
		t.Errorf("the name is %q", name)
	}
}
