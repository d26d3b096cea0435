package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/server/api"
)

// This file reads a job's script and secrets, which are not in its spec, from the leading scheduler. It retries as
// long as necessary. A new leader has the same data.

const (
	scriptTry  = 10 * time.Second // for one scheduler to answer
	pauseFirst = 100 * time.Millisecond
	maxPause   = 3 * time.Second
)

// asker is the part of the link that this file needs.
type asker interface {
	Ask(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error
}

// scriptsOver returns a function that reads a script's text, or the error of a scheduler that does not have it.
func scriptsOver(link asker) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, digest string) (text []byte, err error) {
		err = fetch(ctx, link, func(ctx context.Context, c api.SynapseClient) error {
			reply, err := c.ReadScript(ctx, &api.ReadScript{Digest: digest})
			text = reply.GetText()
			return err
		})
		return text, err
	}
}

// secretsOver returns a function that reads the secrets of a job with tasks on this node. They are sent only over
// TLS.
func secretsOver(link asker) func(context.Context, string, *messages.Token) ([]*messages.Secret, error) {
	return func(ctx context.Context, job string, attempt *messages.Token) (secrets []*messages.Secret, err error) {
		err = fetch(ctx, link, func(ctx context.Context, c api.SynapseClient) error {
			reply, err := c.ReadSecrets(ctx, &api.ReadSecrets{Job: job, Attempt: attempt})
			secrets = reply.GetSecrets()
			return err
		})
		return secrets, err
	}
}

// final lists the codes of permanent errors.
var final = []messages.Code{
	messages.Code_CODE_NOT_FOUND, messages.Code_CODE_CONFLICT, messages.Code_CODE_NOT_ALLOWED,
}

// fetch asks until a scheduler answers or refuses permanently. A permanent refusal is the job's fault, not the
// node's.
func fetch(ctx context.Context, link asker, ask func(context.Context, api.SynapseClient) error) error {
	for pause := pauseFirst; ; pause = min(2*pause, maxPause) {
		var refused error
		err := link.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			ctx, cancel := context.WithTimeout(ctx, scriptTry)
			defer cancel()
			err := ask(ctx, api.NewSynapseClient(conn))
			if o := api.OutcomeOf(err); slices.Contains(final, o.GetCode()) {
				refused = errors.New(strings.TrimSuffix(o.GetText()+"; "+o.GetHint(), "; "))
				return nil
			}
			return err
		})
		switch {
		case refused != nil:
			return fault.OfJob(refused)
		case err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
