package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/cmd/internal/slurmrest"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/httpapi"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/server/metrics/leading"
	"github.com/yi-json/synapse/server/rights"
)

// This file defines the HTTP pages on the scheduler's port and their access. browsers.go serves the web UI.

// pages returns the handler of all pages.
func (s *scheduler) pages() http.Handler {
	registry := metrics.Registry(
		metrics.Process{Host: s.host, Version: daemon.Version(), Leads: true},
		&leading.Source{Census: s.gateway.Census, Epoch: func() uint64 { return s.leads.Load().Epoch }},
	)
	ready := &readiness{ask: s.gateway.Ready}
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", s.private(rights.ReadMetrics, metrics.Handler(registry)))
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	pages.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if ready.now(r.Context()) {
			say(w, http.StatusOK, "ok")
			return
		}
		say(w, http.StatusServiceUnavailable, "this scheduler does not accept jobs now: standby, or starting")
	})
	programs := s.programs()
	pages.Handle(httpapi.Prefix, programs)
	rest := s.slurmREST(programs)
	pages.Handle(slurmrest.Prefix, rest)
	pages.Handle(slurmrest.DBPrefix, rest)
	pages.Handle("/", s.browsers())
	return pages
}

// private returns a handler for visitors with a right. Without an Authenticator, everyone may read the page.
func (s *scheduler) private(right rights.Right, page http.Handler) http.Handler {
	if s.authn == nil {
		return page
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := s.authn.Admit(visitor(r), r.Header.Get("Authorization"), r.URL.Path, right); {
		case errors.Is(err, authn.ErrStranger):
			say(w, http.StatusUnauthorized, err.Error())
		case err != nil:
			say(w, http.StatusForbidden, err.Error())
		default:
			page.ServeHTTP(w, r)
		}
	})
}

func say(w http.ResponseWriter, code int, words string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, words+"\n") // the client may have disconnected
}

// readiness asks the Scheduler at most at an interval, because anyone may request the page.
type readiness struct {
	ask func(context.Context) bool

	mu   sync.Mutex
	at   time.Time
	last bool
}

// readyFor is how long an answer is used.
const readyFor = 500 * time.Millisecond

func (r *readiness) now(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= readyFor {
		r.last = r.ask(context.WithoutCancel(ctx)) // the answer is shared, and its time is limited
		r.at = time.Now()
	}
	return r.last
}
