package gateway

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements the calls for users' tokens. They use the store directly, because no actor needs tokens. A
// revoked token is deleted. An expired token is deleted when the next one is created.

// maxPasses limits the number of tokens in a cluster, and therefore the size of a list.
const maxPasses = 10_000

// CreatePass stores a token by its hash.
func (g *Gateway) CreatePass(ctx context.Context, q *api.CreatePass) (*api.CreatePassReply, error) {
	all, err := g.passes(ctx, q)
	if err != nil {
		return nil, err
	}
	now, left := g.o.WallMs(), 0
	made := &messages.PassRecord{
		Id: messages.PassID(q.GetHash()), Hash: q.GetHash(), Role: q.GetRole(), Name: q.GetName(),
		By: g.o.Principal(ctx).GetName(), MadeUnixMs: now, UntilUnixMs: now + q.GetTtlMs(),
	}
	for _, p := range all {
		same := bytes.Equal(p.Hash, made.Hash) && p.Role == made.Role && p.Name == made.Name
		switch {
		case p.Id == made.Id && same:
			return &api.CreatePassReply{Id: p.Id, UntilUnixMs: p.UntilUnixMs}, nil
		case p.Id == made.Id:
			return nil, api.StatusOf(&messages.Outcome{
				Code: messages.Code_CODE_CONFLICT, Field: "hash", Text: "belongs to another token",
				Hint: "use another secret",
			})
		case p.UntilUnixMs > now:
			left++
			continue
		}
		if err := g.dropPass(ctx, p.Id); err != nil {
			return nil, unstored(err)
		}
	}
	if left >= maxPasses {
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_EXHAUSTED, Text: fmt.Sprintf("limit of %d user tokens reached", left),
			Hint: "revoke unused tokens",
		})
	}
	epoch := g.o.Leader().Epoch
	if err := toStore(ctx, g, func() error { return g.o.Passes.KeepPass(epoch, made) }); err != nil {
		return nil, unstored(err)
	}
	return &api.CreatePassReply{Id: made.Id, UntilUnixMs: made.UntilUnixMs}, nil
}

// ListPasses returns the valid tokens.
func (g *Gateway) ListPasses(ctx context.Context, q *api.ListPasses) (*api.ListPassesReply, error) {
	all, err := g.passes(ctx, q)
	reply := &api.ListPassesReply{}
	for _, p := range all {
		if p.UntilUnixMs > g.o.WallMs() {
			reply.Passes = append(reply.Passes, &api.Pass{
				Id: p.Id, Role: p.Role, Name: p.Name, By: p.By, MadeUnixMs: p.MadeUnixMs, UntilUnixMs: p.UntilUnixMs,
			})
		}
	}
	slices.SortFunc(reply.Passes, func(a, b *api.Pass) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MadeUnixMs, b.MadeUnixMs), cmp.Compare(a.Id, b.Id))
	})
	return reply, err
}

// RevokePass deletes a token. It is refused from then on, and its open connections are closed within a minute.
func (g *Gateway) RevokePass(ctx context.Context, q *api.RevokePass) (*api.RevokePassReply, error) {
	all, err := g.passes(ctx, q)
	if err != nil {
		return nil, err
	}
	var found []*messages.PassRecord
	for _, p := range all {
		if strings.HasPrefix(p.Id, q.GetId()) {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		o := &messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "id", Text: "unknown token " + q.GetId(),
			Hint: "run `synapse-cli token list` for a list; tokens that are not in it are already refused",
		}
		if len(found) > 1 {
			o.Code, o.Text = messages.Code_CODE_CONFLICT, fmt.Sprintf("%d tokens start with %s", len(found), q.GetId())
		}
		return nil, api.StatusOf(o)
	}
	one := found[0]
	if err := g.dropPass(ctx, one.Id); err != nil {
		return nil, unstored(err)
	}
	return &api.RevokePassReply{Id: one.Id, Role: one.Role, Name: one.Name}, nil
}

// passes checks a request and returns all tokens in the store.
func (g *Gateway) passes(ctx context.Context, q question) ([]*messages.PassRecord, error) {
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	if g.o.Passes == nil {
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_ALLOWED, Text: "tokens require TLS: the scheduler uses plaintext",
			Hint: "start the scheduler with --tls",
		})
	}
	all, err := fromStore(ctx, g, g.o.Passes.Passes)
	if err != nil {
		return nil, unstored(err)
	}
	return all, nil
}

func (g *Gateway) dropPass(ctx context.Context, id string) error {
	epoch := g.o.Leader().Epoch
	return toStore(ctx, g, func() error { return g.o.Passes.DropPass(epoch, id) })
}
