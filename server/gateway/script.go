package gateway

import (
	"context"
	"errors"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
)

// This file stores and reads scripts: from the client into the store before the Scheduler learns of the job, and
// from the store by digest. Actors never hold scripts, because 100,000 jobs may wait.

// SubmitScript submits a job with a script.
func (g *Gateway) SubmitScript(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	return g.submitScript(ctx, q, nil)
}

// submitScript stores the script of a job, and submits the job with its sealed secrets, if any.
func (g *Gateway) submitScript(
	ctx context.Context, q *messages.Submit, sealed []byte,
) (*messages.SubmitReply, error) {
	text := q.GetSpec().GetScript().GetText()
	if err := q.GetSpec().Validate(); err != nil { // while the spec still contains the text
		return nil, api.StatusOf(invalid(err))
	}
	if len(text) == 0 {
		return nil, api.StatusOf(invalid(&messages.FieldError{
			Field: "spec.script.text", Text: "is missing", Hint: "send the script's text",
		}))
	}
	q.Principal, q.Spec, q.Sealed = g.o.Principal(ctx), q.Spec.Bare(), sealed
	q.Exempt, q.Groups = g.standing(ctx)
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	if g.o.Scripts == nil {
		return nil, api.StatusOf(unavailable("scripts are not stored by this scheduler",
			"put the script where the nodes can read it"))
	}
	epoch := g.o.Leader().Epoch
	if err := toStore(ctx, g, func() error { return g.o.Scripts.KeepScript(epoch, text) }); err != nil {
		return nil, unstored(err)
	}
	return call[*messages.SubmitReply](ctx, g, g.scheduler, q)
}

// ReadScript returns the text of the script with this digest.
func (g *Gateway) ReadScript(ctx context.Context, q *api.ReadScript) (*api.ScriptText, error) {
	q.Principal = g.o.Principal(ctx)
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	if g.o.Scripts == nil {
		return nil, api.StatusOf(noScript())
	}
	text, err := fromStore(ctx, g, func() ([]byte, error) { return g.o.Scripts.Script(q.Digest) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, api.StatusOf(noScript())
	case errors.Is(err, store.ErrDamaged):
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "digest", Text: err.Error(),
			Hint: "submit the job again from its file",
		})
	case err != nil:
		return nil, unstored(err)
	}
	return &api.ScriptText{Text: text}, nil
}

func noScript() *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_FOUND, Field: "digest", Text: "unknown script digest",
		Hint: "submit the job again from its file",
	}
}
