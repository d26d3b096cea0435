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

// This file owns how a machine fetches what came with a job and is not in its spec, its script and its secrets: from
// whichever scheduler leads, as long as it takes. A new leader has what the last one had.

const (
	scriptTry  = 10 * time.Second // for one scheduler to answer
	pauseFirst = 100 * time.Millisecond
	maxPause   = 3 * time.Second
)

// asker is the link, as far as it is needed here.
type asker interface {
	Ask(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error
}

// scriptsOver fetches a script's text, or the refusal of a scheduler that knows that there is none.
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

// secretsOver fetches the secrets of a job of which this machine has tasks, likewise. They come by TLS alone.
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

// final are the answers that no other try changes.
var final = []messages.Code{
	messages.Code_CODE_NOT_FOUND, messages.Code_CODE_CONFLICT, messages.Code_CODE_NOT_ALLOWED,
}

// fetch asks until a scheduler answers, or refuses for good: that is the job's fault, and no machine's.
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
