package gateway

import (
	"context"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file submits copies of jobs. The client sends only the name of the job, so that the environment, the command
// and the script of the job do not leave the scheduler.

// submitCopy submits a copy of a job. The caller has the right to read the job's private fields.
func (g *Gateway) submitCopy(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	of := &messages.GetJob{Principal: g.o.Principal(ctx), Job: q.GetJob()}
	job, err := g.found(ctx, of, of.Job)
	if err != nil {
		return nil, err
	}
	spec := job.GetRecord().Copied()
	if len(spec.GetSecrets()) > 0 {
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job",
			Text: "job " + job.GetRecord().GetId() + " has secrets, whose values cannot be copied",
			Hint: "run `synapse-cli submit --from " + job.GetRecord().GetId() + "`, and give the values again",
		})
	}
	q.Job, q.Spec = "", spec
	if spec.GetScript() == nil {
		return g.Submit(ctx, q)
	}
	text, err := g.ReadScript(ctx, &api.ReadScript{Digest: spec.GetScript().GetDigest()})
	if err != nil {
		return nil, err
	}
	spec.Script.Text = text.GetText()
	return g.submitScript(ctx, q, nil)
}
