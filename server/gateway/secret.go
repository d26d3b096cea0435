package gateway

import (
	"context"
	"errors"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/secretseal"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file handles the values of secrets: from the client, encrypted, into the job's record, and from the record
// to a node that runs the job. Actors, logs and answers to users never contain the values.

// SubmitSecret submits a job with secrets, and with a script if it has one.
func (g *Gateway) SubmitSecret(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	if err := errors.Join(q.GetSpec().ValidateNew(), q.GetSpec().HasSecretValues()); err != nil { // with the values
		return nil, api.StatusOf(invalid(err))
	}
	if len(q.GetSpec().GetSecrets()) == 0 {
		return nil, api.StatusOf(invalid(&messages.FieldError{
			Field: "spec.secrets", Text: "are missing", Hint: "use Submit for a job without secrets",
		}))
	}
	if g.o.Sealer == nil {
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_ALLOWED, Field: "spec.secrets",
			Text: "secrets require TLS: without TLS the caller is unknown",
			Hint: "start the scheduler with --tls",
		})
	}
	secrets, bare := q.Spec.TakeSecrets()
	owner := g.o.Principal(ctx).GetName()
	sealed, err := g.o.Sealer.Seal(messages.Bytes(secrets), g.aboutSecrets(owner, bare)...)
	if err != nil {
		g.o.Log.Info("Jobs with secrets are refused: %v", err)
		return nil, api.StatusOf(unavailable("scheduler has no key to encrypt secrets",
			"see --secrets-key, and read the scheduler's log"))
	}
	q.Spec = bare
	if len(bare.GetScript().GetText()) > 0 {
		return g.submitScript(ctx, q, sealed)
	}
	q.Principal, q.Sealed = g.o.Principal(ctx), sealed
	q.Exempt, q.Groups = g.standing(ctx)
	return call[*messages.SubmitReply](ctx, g, g.scheduler, q)
}

// aboutSecrets returns the context to which the secrets of a job are bound. They cannot be decrypted in the record
// of another owner's job, or of a job with other secrets.
func (g *Gateway) aboutSecrets(owner string, spec *messages.JobSpec) []string {
	about := []string{g.o.ClusterID, owner}
	for _, s := range spec.GetSecrets() {
		about = append(about, s.GetName())
	}
	return about
}

// ReadSecrets returns the secrets of an attempt to a node with tasks of it. All other callers get the same refusal,
// even if the job does not exist.
func (g *Gateway) ReadSecrets(ctx context.Context, q *api.ReadSecrets) (*messages.Secrets, error) {
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	if g.o.Sealer == nil || g.o.Store == nil || g.o.Node == nil {
		return nil, api.StatusOf(noneOfYours())
	}
	node, err := g.o.Node(ctx)
	if err != nil {
		return nil, api.StatusOf(noneOfYours())
	}
	record, attempts, err := g.o.Store.Job(topology.JobID(q.Job))
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrDamaged):
		return nil, api.StatusOf(noneOfYours())
	case err != nil:
		return nil, unread(err)
	case !runsAt(attempts, messages.FromToken(q.Attempt), node) || len(record.GetSealed()) == 0:
		return nil, api.StatusOf(noneOfYours())
	}
	text, err := g.o.Sealer.Open(record.GetSealed(), g.aboutSecrets(record.GetOwner().GetName(), record.GetSpec())...)
	secrets := &messages.Secrets{}
	if err == nil {
		err = proto.Unmarshal(text, secrets)
	}
	if err != nil {
		return nil, api.StatusOf(g.closedSecrets(q.Job, err))
	}
	return secrets, nil
}

// runsAt reports whether an attempt has not ended and has tasks on a node.
func runsAt(attempts []*messages.AttemptRecord, token topology.Token, node string) bool {
	return slices.ContainsFunc(attempts, func(a *messages.AttemptRecord) bool {
		return messages.FromToken(a.Token) == token && a.End == nil &&
			slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Node == node })
	})
}

// closedSecrets returns the error for secrets that cannot be decrypted. A missing key can be added later; damaged
// secrets stay unreadable.
func (g *Gateway) closedSecrets(job string, err error) *messages.Outcome {
	g.o.Log.Info("The secrets of job %s cannot be decrypted: %v", job, err)
	o := &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "job", Text: "secrets of the job cannot be decrypted",
		Hint: "submit the job again with `--from`",
	}
	if errors.Is(err, secretseal.ErrNoKey) || errors.Is(err, os.ErrNotExist) {
		o.Text = "key that encrypted the secrets is missing on the current leader"
		o.Hint = "add the key to the leader's --secrets-key, and submit the job again with `--from`"
	}
	return o
}

func noneOfYours() *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Field: "job",
		Text: "node has no task of this attempt, or the job has no secrets",
	}
}
