package main

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
)

// This file owns how a machine fetches a script that came with a job: from whichever
// scheduler leads, as long as it takes. A new leader has what the last one had.

const (
	scriptTry  = 10 * time.Second // for one scheduler to answer
	pauseFirst = 100 * time.Millisecond
	maxPause   = 3 * time.Second
)

// asker is the link, as far as it is needed here.
type asker interface {
	Ask(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error
}

// fetchScript answers a script's text, or the refusal of a scheduler that knows that there is none.
func fetchScript(ctx context.Context, link asker, digest string) (text []byte, err error) {
	for pause := pauseFirst; ; pause = min(2*pause, maxPause) {
		var refused error
		err := link.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			ctx, cancel := context.WithTimeout(ctx, scriptTry)
			defer cancel()
			reply, err := api.NewSynapseClient(conn).ReadScript(ctx, &api.ReadScript{Digest: digest})
			text = reply.GetText()
			if o := api.OutcomeOf(err); o.GetCode() == messages.Code_CODE_NOT_FOUND ||
				o.GetCode() == messages.Code_CODE_CONFLICT {
				refused = errors.New(o.GetText() + "; " + o.GetHint())
				return nil
			}
			return err
		})
		switch {
		case refused != nil:
			return nil, fault.OfJob(refused)
		case err == nil:
			return text, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
