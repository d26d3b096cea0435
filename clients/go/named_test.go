package client

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// namesakes is a fake scheduler that lists jobs in the order of this list.
type namesakes struct {
	api.SynapseClient
	jobs []*messages.JobStatus
}

func (n *namesakes) GetJob(_ context.Context, q *messages.GetJob, _ ...grpc.CallOption) (*messages.GetJobReply, error) {
	for _, j := range n.jobs {
		if j.Record.Id == q.Job {
			return &messages.GetJobReply{Job: j}, nil
		}
	}
	return nil, &Error{Code: messages.Code_CODE_NOT_FOUND, Text: "there is no such job"}
}

func (n *namesakes) ListJobs(_ context.Context, _ *messages.ListJobs, _ ...grpc.CallOption) (
	*messages.ListJobsReply, error) {
	return &messages.ListJobsReply{Jobs: n.jobs}, nil
}

// TestOfOneName checks how a name selects one of several jobs, in any order of the list. A single unfinished
// job is selected. Several unfinished jobs are refused, and the error lists them. If all jobs are finished,
// the newest is selected.
func TestOfOneName(t *testing.T) {
	const running, ended = messages.JobState_JOB_STATE_ACTIVE, messages.JobState_JOB_STATE_FAILED
	for states := range 8 { // one bit per job: unfinished or not
		for _, order := range [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} {
			other := &messages.JobStatus{Record: &messages.JobRecord{
				Id: "j9", SubmittedUnixMs: 9, State: running, Spec: &messages.JobSpec{Name: "other"},
			}}
			n, live, want := &namesakes{jobs: []*messages.JobStatus{other}}, []string(nil), "j3"
			for _, at := range order {
				r := &messages.JobRecord{
					Id: fmt.Sprintf("j%d", at), SubmittedUnixMs: int64(at), State: ended, Spec: &messages.JobSpec{Name: "train"},
				}
				if states>>(at-1)&1 == 1 {
					r.State, want = running, r.Id
					live = append(live, r.Id)
				}
				n.jobs = append(n.jobs, &messages.JobStatus{Record: r})
			}
			j, err := (&Client{SynapseClient: n}).Named(t.Context(), "train")
			about := fmt.Sprintf("live are %03b, listed is %v", states, order)
			switch {
			case len(live) > 1:
				if !codeIs(err, messages.Code_CODE_CONFLICT) || !strings.Contains(err.Error(), strings.Join(live, ", ")) {
					t.Errorf("%s: %v, %v", about, j.GetRecord().GetId(), err)
				}
			case err != nil || j.GetRecord().GetId() != want:
				t.Errorf("%s: found is %s, want %s: %v", about, j.GetRecord().GetId(), want, err)
			}
		}
	}
	n := &namesakes{jobs: []*messages.JobStatus{{Record: &messages.JobRecord{
		Id: "j1", State: ended, Spec: &messages.JobSpec{Name: "other"},
	}}}}
	if _, err := (&Client{SynapseClient: n}).Named(t.Context(), "train"); !codeIs(err, messages.Code_CODE_NOT_FOUND) {
		t.Errorf("a name that no job has: %v", err)
	}
}

// inside is a fake scheduler in the process of its caller, whose errors are those of gRPC.
type inside struct{ namesakes }

func (n *inside) GetJob(ctx context.Context, q *messages.GetJob, _ ...grpc.CallOption) (*messages.GetJobReply, error) {
	reply, err := n.namesakes.GetJob(ctx, q)
	if err != nil {
		err = api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Field: "job", Text: "no such job"})
	}
	return reply, err
}

// TestNamedInside checks that a job is found by its name through calls inside the scheduler's process. The web UI
// submits jobs with dependencies through such calls.
func TestNamedInside(t *testing.T) {
	n := &inside{}
	n.jobs = []*messages.JobStatus{{Record: &messages.JobRecord{Id: "j7", Spec: &messages.JobSpec{Name: "prep"}}}}
	c := Over(n)
	spec := &messages.JobSpec{After: []*messages.After{{Job: "prep"}}}
	if err := c.Precede(t.Context(), spec, c.Named); err != nil || spec.GetAfter()[0].GetJob() != "j7" {
		t.Errorf("the dependency is %v (%v)", spec.GetAfter(), err)
	}
	if _, err := c.Named(t.Context(), "other"); !Is(err, messages.Code_CODE_NOT_FOUND) {
		t.Errorf("an unknown name: %v", err)
	}
}
