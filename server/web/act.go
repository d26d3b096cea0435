package web

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements the actions of a page. The scheduler checks the rights of the user, as for the command line.

// wish is a requested change of a job or node.
type wish struct {
	Verb   string `json:"verb"`
	Of     string `json:"of"`
	Reason string `json:"reason"`
}

// act makes a requested change.
func (p *Page) act(r *http.Request) (any, error) {
	var q wish
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	if err := in.Decode(&q); err != nil {
		return nil, &mistake{text: "malformed request: " + err.Error()}
	}
	if q.Of == "" {
		return nil, &mistake{text: "of is missing: give a job or a node"}
	}
	if err := carryOut(r.Context(), asked(r), q); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func carryOut(ctx context.Context, on api.SynapseClient, q wish) error {
	do := verbs[q.Verb]
	if do == nil {
		return &mistake{text: "unknown verb " + q.Verb}
	}
	return do(ctx, on, q)
}

// verbs lists the changes that a page can request.
var verbs = map[string]func(ctx context.Context, on api.SynapseClient, q wish) error{
	"cancel": func(ctx context.Context, on api.SynapseClient, q wish) error {
		_, err := on.Cancel(ctx, &messages.Cancel{Job: q.Of, Reason: q.Reason})
		return err
	},
	"hold": hold, "release": hold,
	"requeue": func(ctx context.Context, on api.SynapseClient, q wish) error {
		_, err := on.Requeue(ctx, &messages.Requeue{Job: q.Of, Reason: q.Reason})
		return err
	},
	"cordon":   machine(messages.NodeVerb_NODE_VERB_CORDON),
	"uncordon": machine(messages.NodeVerb_NODE_VERB_UNCORDON),
	"drain":    machine(messages.NodeVerb_NODE_VERB_DRAIN),
}

func hold(ctx context.Context, on api.SynapseClient, q wish) error {
	_, err := on.Hold(ctx, &messages.Hold{Job: q.Of, Reason: q.Reason, Release: q.Verb == "release"})
	return err
}

func machine(verb messages.NodeVerb) func(context.Context, api.SynapseClient, wish) error {
	return func(ctx context.Context, on api.SynapseClient, q wish) error {
		_, err := on.ChangeNode(ctx, &messages.ChangeNode{Node: q.Of, Verb: verb, Reason: q.Reason})
		return err
	}
}
