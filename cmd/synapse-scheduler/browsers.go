package main

import (
	"net"
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cmd/internal/webjobs"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/web"
)

// This file serves the web UI on the scheduler's port, and selects the user of each browser. Every call of a page
// passes the same interceptors as over gRPC.
//
// With --tls, users log in, if a certificate for browsers is configured. Without --tls there are no identities, so
// the page is open to everyone who can reach the port, with the same rights as other clients. Other pages in a
// browser cannot use it: server/web refuses their requests.

const program = "synapse-cli"

// browsers returns the handler of the web UI, or of the page that replaces it.
func (s *scheduler) browsers() http.Handler {
	switch {
	case !s.page:
		return http.NotFoundHandler()
	case s.authn == nil:
		api := s.service().As(peer.Peer{Addr: &net.TCPAddr{}})
		page := web.New(web.Options{API: api, Open: true, Program: program, Answers: s.plainName})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpmux.Entered(r) // no authentication is needed
			page.ServeHTTP(w, r)
		})
	case s.pageCert == "":
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusNotFound, "Run `synapse-cli web` to open the web UI. To serve browsers directly, set --web-cert "+
				"and --web-key to a certificate that browsers trust.")
		})
	}
	page := web.New(web.Options{
		Sessions: desks{s.authn, s.service()}, Secure: true, Program: program, Answers: s.authn.PageName,
		Files: webjobs.Files{},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !visitor(r).Named() {
			say(w, http.StatusMisdirectedRequest, "The web UI is served only under the names in its certificate.")
			return
		}
		page.ServeHTTP(w, r)
	})
}

// visitor returns the handshake result of a request.
func visitor(r *http.Request) authn.Visitor {
	v, _ := httpmux.InfoOf(r).(authn.Visitor)
	return v
}

// service returns the client API with its interceptors in gRPC's order.
func (s *scheduler) service() *caller.Service {
	c := &caller.Service{
		API: s.gateway, Calls: []grpc.UnaryServerInterceptor{s.gateway.GuardCall},
		Streams: []grpc.StreamServerInterceptor{s.gateway.GuardStream},
	}
	if s.authn != nil {
		c.Calls, c.Streams = append(c.Calls, s.authn.GuardCall), append(c.Streams, s.authn.GuardStream)
	}
	return c
}

// plainName reports whether a page without TLS accepts a host name: an address, this host's name, or the advertised
// name. A DNS-rebinding page cannot use an address as its name.
func (s *scheduler) plainName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	own, _ := os.Hostname() // on failure, this name is not accepted
	told, _, _ := net.SplitHostPort(s.advertise)
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return ip != nil || name != "" &&
		(name == "localhost" || strings.EqualFold(name, own) || strings.EqualFold(name, told))
}

// desks manages login sessions with the Authenticator.
type desks struct {
	authn   *authn.Authenticator
	service *caller.Service
}

// LogIn checks a token.
func (d desks) LogIn(r *http.Request, token string) (string, error) {
	return d.authn.LogIn(visitor(r), token, httpmux.AddressOf(r))
}

// Resume returns the user of a cookie.
func (d desks) Resume(r *http.Request, cookie string) (*web.Guest, func(), error) {
	s, done, err := d.authn.Resume(visitor(r), cookie, httpmux.AddressOf(r))
	if err != nil {
		return nil, nil, err
	}
	httpmux.Entered(r)
	return &web.Guest{Whom: s.Whom(), API: d.service.As(s.Peer()), Until: s.Until(), Leave: s.LogOut}, done, nil
}
