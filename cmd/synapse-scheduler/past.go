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

// This file stores the timeline in the data folder of the leading scheduler. A later leader on another host does
// not have the earlier timeline. No job depends on it, so errors are only logged.

// keepPast starts to write the timeline for the time in which this process leads.
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

// itself returns the API for the scheduler's own requests.
func (s *scheduler) itself() api.SynapseClient {
	as := peer.Peer{}
	if s.authn != nil { // it calls as itself, without interceptors
		as.AuthInfo = authn.Proof{Peer: identity.Peer{Identity: s.authn.Identity()}}
	}
	return (&caller.Service{API: s.gateway}).As(as)
}

// pastKept returns the timeline for the gateway.
func (s *scheduler) pastKept() gateway.Past {
	if k := s.keeper.Load(); k != nil {
		return k
	}
	return nil
}
