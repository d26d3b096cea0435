package web

import (
	"context"
	"net/http"

	"github.com/yi-json/synapse/server/api"
)

// This file applies the rules for every browser, and selects the user for whom the page is served.

// Guest is a user of the page.
type Guest struct {
	Whom  string // its pages share one watch
	API   api.SynapseClient
	Until context.Context // done when serving ends; nil: as long as the page
	Leave func()          // logs out; nil: no logout
}

// way admits browsers.
type way interface {
	// admits returns the user of a request and a function to call at its end. It returns nil if it has answered
	// the request.
	admits(w http.ResponseWriter, r *http.Request) (*Guest, func())
}

type guestKey struct{}

// guestOf returns the user of a request.
func guestOf(r *http.Request) *Guest { return r.Context().Value(guestKey{}).(*Guest) }

// asked returns the API with the rights of the request's user.
func asked(r *http.Request) api.SynapseClient { return guestOf(r).API }

// open admits every browser.
type open struct{ guest *Guest }

func (o open) admits(http.ResponseWriter, *http.Request) (*Guest, func()) { return o.guest, func() {} }

// guardHeaders restricts a browser to scripts and data from this server, and forbids frames. The browser must store
// nothing, because the next user of the computer may have fewer rights.
func guardHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// foreign reports whether another page caused the request. A change must contain its origin. A browser that sends
// no origin is too old and is refused.
func foreign(r *http.Request, secure bool) bool {
	own := "http://" + r.Host
	if secure {
		own = "https://" + r.Host
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != own {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return false
	case "none", "": // a typed address, or another client
		return r.Method != http.MethodGet && r.Header.Get("Origin") == ""
	}
	// A link on another page may open the start page, which changes nothing.
	return r.Method != http.MethodGet || r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}
