package main

import (
	"net"
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/web"
)

// This file owns the page for browsers on the scheduler's port: as whom each is served. Every call that a page makes
// passes the guards of the same call by gRPC.
//
// With --tls a person logs in, where the page has a certificate that browsers believe. Without, there is nobody to log
// in as: the page is for everybody who reaches the port, and does what they could do there without it. A page of
// somebody else in a browser does not reach it so: see what server/web refuses.

const program = "synapse-cli"

// browsers is the page, or what stands in its place.
func (s *scheduler) browsers() http.Handler {
	switch {
	case !s.page:
		return http.NotFoundHandler()
	case s.authn == nil:
		api := s.service().As(peer.Peer{Addr: &net.TCPAddr{}})
		page := web.New(web.Options{API: api, Open: true, Program: program, Answers: s.plainName})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpmux.Entered(r) // there is nothing to prove
			page.ServeHTTP(w, r)
		})
	case s.pageCert == "":
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusNotFound, "The page is shown by `synapse-cli web`. For browsers that come here themselves the "+
				"scheduler needs a certificate that they believe: --web-cert and --web-key.")
		})
	}
	page := web.New(web.Options{
		Sessions: desks{s.authn, s.service()}, Secure: true, Program: program, Answers: s.authn.PageName,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !visitor(r).Named() {
			say(w, http.StatusMisdirectedRequest, "The page is shown under the names of its own certificate alone.")
			return
		}
		page.ServeHTTP(w, r)
	})
}

// visitor is what the handshake said of whoever makes a request; nobody comes another way.
func visitor(r *http.Request) authn.Visitor {
	v, _ := httpmux.InfoOf(r).(authn.Visitor)
	return v
}

// service is the client API behind all its guards, in the order in which gRPC has them.
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

// plainName reports whether a page in the clear may be called by a name: an address, which no foreign page can have
// its own name lead to, this machine's name, or the one that the scheduler tells others.
func (s *scheduler) plainName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	own, _ := os.Hostname() // none: not by that
	told, _, _ := net.SplitHostPort(s.advertise)
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return ip != nil || name != "" &&
		(name == "localhost" || strings.EqualFold(name, own) || strings.EqualFold(name, told))
}

// desks are where people log in, at the gate.
type desks struct {
	authn   *authn.Authenticator
	service *caller.Service
}

// LogIn takes a token.
func (d desks) LogIn(r *http.Request, token string) (string, error) {
	return d.authn.LogIn(visitor(r), token, httpmux.AddressOf(r))
}

// Resume is whose the cookie is.
func (d desks) Resume(r *http.Request, cookie string) (*web.Guest, func(), error) {
	s, done, err := d.authn.Resume(visitor(r), cookie, httpmux.AddressOf(r))
	if err != nil {
		return nil, nil, err
	}
	httpmux.Entered(r)
	return &web.Guest{Whom: s.Whom(), API: d.service.As(s.Peer()), Until: s.Until(), Leave: s.LogOut}, done, nil
}
