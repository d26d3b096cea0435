package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/server/traces"
)

// This file owns the setting `otlp`: to whom it is told how gangs lived.

// checkCollector refuses a URL that no collector has, and one to which names would travel for others to read.
func (o *options) checkCollector() error {
	if o.otlp == "" {
		return nil
	}
	at, err := url.Parse(o.otlp) // what is wrong with it may have a password in it
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return errors.New("--otlp: must be a URL such as http://127.0.0.1:4318; /v1/traces is appended")
	}
	if err := checkUnread(at); err != nil {
		return fmt.Errorf("--otlp: %w", err)
	}
	return nil
}

// traces begins to tell a collector, for as long as this process leads, and answers who is to be told of phases of
// attempts; nil: nobody.
func (s *scheduler) traces(ctx context.Context) func(actors.Passage) {
	if s.otlp == "" {
		return nil
	}
	t := traces.New(traces.Options{
		URL: s.otlp, Cluster: s.cluster, Version: daemon.Version(), API: s.itself(), WallMs: s.host.Clock().WallMs,
		Log: s.log.Info,
	})
	go t.Run(ctx)
	return t.Passed
}
