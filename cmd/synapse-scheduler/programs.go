package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cmd/internal/slurmrest"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/httpapi"
	"github.com/yi-json/synapse/server/httpmux"
)

// This file serves the client API over HTTP, and selects the identity of each request.

// programs returns the handler of this API.
func (s *scheduler) programs() *httpapi.API {
	o := httpapi.Options{Service: s.service(), Caller: s.callerBehindGate}
	if s.authn != nil {
		o.Roots = s.authn.Roots()
	} else {
		o.Answers = s.plainName // without authentication, DNS rebinding must be prevented
		o.Caller = func(r *http.Request) (*httpapi.Caller, error) {
			httpmux.Entered(r)
			return &httpapi.Caller{Peer: peer.Peer{Addr: httpmux.AddressOf(r)}}, nil
		}
	}
	return httpapi.New(o)
}

// slurmREST returns the handler of Slurm's REST API, for the same users.
func (s *scheduler) slurmREST(of *httpapi.API) http.Handler {
	host, _ := os.Hostname() // clients only show it
	return slurmrest.New(slurmrest.Options{API: of, Host: host, Now: time.Now})
}

// callerBehindGate returns the sender of a request from the Authenticator.
func (s *scheduler) callerBehindGate(r *http.Request) (*httpapi.Caller, error) {
	c, err := s.authn.Caller(visitor(r), r.Header.Get("Authorization"), httpmux.AddressOf(r))
	switch {
	case errors.Is(err, credential.ErrLater):
		return nil, fmt.Errorf("%w: %w", httpapi.ErrLater, err)
	case errors.Is(err, authn.ErrStranger):
		return nil, fmt.Errorf("%w: %w", httpapi.ErrWho, err)
	case err != nil:
		return nil, err
	}
	httpmux.Entered(r)
	return &httpapi.Caller{Peer: c.Peer, Whom: c.Whom(), Until: c.Until, Leave: c.Leave, Comes: c.Comes}, nil
}
