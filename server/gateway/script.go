package gateway

import (
	"context"
	"errors"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
)

// This file owns the way of a script's text: from the client into the store before the Scheduler learns of the job, and
// from the store to whatever asks for it by its digest. No actor ever holds it, because a hundred thousand jobs may
// wait.

// SubmitScript is Submit for a job that brings a script.
func (g *Gateway) SubmitScript(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	return g.submitScript(ctx, q, nil)
}

// submitScript keeps the script of a job, and submits it with the secrets that it has.
func (g *Gateway) submitScript(
	ctx context.Context, q *messages.Submit, sealed []byte,
) (*messages.SubmitReply, error) {
	text := q.GetSpec().GetScript().GetText()
	if err := q.GetSpec().Validate(); err != nil { // while the text is still in it
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

// ReadScript returns the text of the script with a digest.
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
