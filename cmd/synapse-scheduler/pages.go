package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/httpapi"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/server/metrics/leading"
	"github.com/yi-json/synapse/server/rights"
)

// This file owns what the scheduler's port answers to plain HTTP, and to whom. browsers.go has what browsers are shown.

// pages are all there are.
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
		say(w, http.StatusServiceUnavailable, "this scheduler does not take jobs now: it stands by, or is starting")
	})
	pages.Handle(httpapi.Prefix, s.programs())
	pages.Handle("/", s.browsers())
	return pages
}

// private is a page for those who have a right. Where there is no gate, everybody may read what is read.
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
	_, _ = io.WriteString(w, words+"\n") // whoever asked may be gone
}

// readiness asks the Scheduler once in a while, however many ask whether it is ready: anybody may.
type readiness struct {
	ask func(context.Context) bool

	mu   sync.Mutex
	at   time.Time
	last bool
}

// readyFor is for how long an answer is good.
const readyFor = 500 * time.Millisecond

func (r *readiness) now(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= readyFor {
		r.last = r.ask(context.WithoutCancel(ctx)) // it is everybody's answer, and bounded
		r.at = time.Now()
	}
	return r.last
}
