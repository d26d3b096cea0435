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

// This file owns the way of the values of secrets: from the client into the job's record, sealed, before the Scheduler
// learns of the job; and from the record to a machine that runs it. No actor has them, and nothing that is kept, shown
// or logged.

// SubmitSecret is Submit for a job with secrets, and with a script if it brings one.
func (g *Gateway) SubmitSecret(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	if err := errors.Join(q.GetSpec().ValidateNew(), q.GetSpec().HasSecretValues()); err != nil { // while they are in it
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

// aboutSecrets says what the secrets of a job are sealed for: another owner's job, or one of other secrets, cannot open
// them, even if somebody puts them into its record.
func (g *Gateway) aboutSecrets(owner string, spec *messages.JobSpec) []string {
	about := []string{g.o.ClusterID, owner}
	for _, s := range spec.GetSecrets() {
		about = append(about, s.GetName())
	}
	return about
}

// ReadSecrets answers a machine the secrets of an attempt that has tasks there. Everybody else gets the same refusal,
// whether there is such a job or not.
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

// runsAt reports whether an attempt has tasks on a machine, and has not ended.
func runsAt(attempts []*messages.AttemptRecord, token topology.Token, node string) bool {
	return slices.ContainsFunc(attempts, func(a *messages.AttemptRecord) bool {
		return messages.FromToken(a.Token) == token && a.End == nil &&
			slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Node == node })
	})
}

// closedSecrets is the answer where what is sealed cannot be opened. A key may still be put there; what is damaged
// stays so.
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
