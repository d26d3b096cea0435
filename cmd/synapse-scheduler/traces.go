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

// This file implements the setting `otlp`: the collector for traces.

// checkCollector refuses an invalid URL, and one over which others could read the names.
func (o *options) checkCollector() error {
	if o.otlp == "" {
		return nil
	}
	at, err := url.Parse(o.otlp) // the error may contain a password
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return errors.New("--otlp: must be a URL such as http://127.0.0.1:4318; /v1/traces is appended")
	}
	if err := checkUnread(at); err != nil {
		return fmt.Errorf("--otlp: %w", err)
	}
	return nil
}

// traces starts to send traces for the time in which this process leads. It returns the function that records
// phases of attempts, or nil.
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
