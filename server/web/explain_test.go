package web

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
)

// This file tests the facts about a waiting job on its page.

// ExplainJob answers with facts, or like an earlier scheduler with a text alone.
func (s *scheduler) ExplainJob(_ context.Context, q *messages.ExplainJob, _ ...grpc.CallOption) (
	*messages.ExplainJobReply, error) {
	if q.GetJob() == "j-early" {
		return &messages.ExplainJobReply{Text: "needs 8 GPUs"}, nil
	}
	gpus := &messages.Resources{MilliGpu: 8_000}
	return &messages.ExplainJobReply{Text: "not shown", Explanation: &messages.Explanation{
		Job: &messages.JobName{Id: "j1", ShortId: "j1", Name: "big"}, Phase: messages.PhaseQueued,
		Reason: "Resources: needs 8 GPUs", ReasonCode: "Resources", Needs: &messages.Demand{Total: gpus},
		InUse: []*messages.Holding{
			{Job: &messages.JobName{ShortId: "j2", Name: "svc", Owner: "ann"}, Amount: gpus, Ends: explain.NoLimit},
		},
	}}, nil
}

// TestExplainedRows checks that the page gets the rows of the command line, and the text of an earlier scheduler.
func TestExplainedRows(t *testing.T) {
	d := serve(t, &scheduler{}).enter()
	for id, want := range map[string]string{
		"j1": `{"title":"big (j1) is queued: needs 8 GPUs","rows":[{"label":"Needs","lines":[["8 GPUs"]]},` +
			`{"label":"In use","lines":[["8 GPUs","svc","(j2, ann)","no time limit"]]}]}`,
		"j-early": `{"title":"needs 8 GPUs","rows":[]}`,
	} {
		answer, text := d.ask("GET", "/explain?id="+id, "", nil)
		if answer.StatusCode != http.StatusOK || text != want+"\n" {
			t.Errorf("%s: %s\n%s\nwant\n%s", id, answer.Status, text, want)
		}
	}
}
