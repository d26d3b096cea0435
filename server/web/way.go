package web

import (
	"context"
	"net/http"

	"github.com/yi-json/synapse/server/api"
)

// This file owns what every browser is held to, whichever way it comes in, and for whom it is served then.

// Guest is somebody for whom the page is served.
type Guest struct {
	Whom  string // its pages have one watch in common
	API   api.SynapseClient
	Until context.Context // done when nothing more is served; nil: for as long as the page is
	Leave func()          // logs out; nil: one does not
}

// way lets browsers in.
type way interface {
	// admits answers for whom a request is served, and what ends that; nil: it has been answered.
	admits(w http.ResponseWriter, r *http.Request) (*Guest, func())
}

type guestKey struct{}

// guestOf is for whom a request is served.
func guestOf(r *http.Request) *Guest { return r.Context().Value(guestKey{}).(*Guest) }

// asked is the API as the request's guest sees it.
func asked(r *http.Request) api.SynapseClient { return guestOf(r).API }

// open is the way of a page that is for everybody.
type open struct{ guest *Guest }

func (o open) admits(http.ResponseWriter, *http.Request) (*Guest, func()) { return o.guest, func() {} }

// guardHeaders has a browser run, show and fetch nothing but what comes from here, and show none of it inside another
// page. Nothing is kept: what one may see, the next at the same desk may not.
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

// foreign reports whether another page has the browser ask. What changes something has to say where it comes from; a
// browser that does not say so at all is too old to be believed.
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
	case "none", "": // somebody typed the address, or it is no browser
		return r.Method != http.MethodGet && r.Header.Get("Origin") == ""
	}
	// A link elsewhere may lead to the page, which shows itself and does nothing.
	return r.Method != http.MethodGet || r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}
