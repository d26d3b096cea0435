package main

import (
	"context"
	"path/filepath"

	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/server/gateway"
	"github.com/yi-json/synapse/server/timeline"
	"github.com/yi-json/synapse/server/web"
)

// This file owns where the past is kept: by the scheduler that leads, in its own data folder. One that leads after it
// elsewhere knows of nothing before. Nobody's job waits for it, so trouble with it is said and ends nothing.

// keepPast begins to keep it, for as long as this process leads.
func (s *scheduler) keepPast(ctx context.Context) {
	if s.options.past == 0 || s.options.store == storeMemory || s.dataDir == "" {
		return
	}
	measured := &timeline.Measured{Spans: s.host.Spans}
	k, err := timeline.NewKeeper(timeline.Options{
		Dir: filepath.Join(s.dataDir, "past"), Keep: s.options.past, Text: web.PastText,
		API: s.itself(),
		Count: func(ctx context.Context) *timeline.Sum {
			c, err := s.gateway.Census(ctx)
			if err != nil || c == nil {
				return nil
			}
			sum := timeline.SumOf(c)
			sum.Promises = measured.Since()
			return sum
		},
		WallMs: s.host.Clock().WallMs, Log: s.log.Info,
	})
	if err != nil {
		s.log.Info("The timeline is not saved: %v", err)
		return
	}
	s.keeper.Store(k)
	go k.Run(ctx)
}

// itself is the API for the scheduler's own questions.
func (s *scheduler) itself() api.SynapseClient {
	as := peer.Peer{}
	if s.authn != nil { // it asks as itself, and nobody guards it from that
		as.AuthInfo = authn.Proof{Peer: identity.Peer{Identity: s.authn.Identity()}}
	}
	return (&caller.Service{API: s.gateway}).As(as)
}

// pastKept is how the cluster was, for the gateway.
func (s *scheduler) pastKept() gateway.Past {
	if k := s.keeper.Load(); k != nil {
		return k
	}
	return nil
}
