// Package web serves the web UI: its files, and the requests of a browser to a scheduler. It decides nothing and
// has no own data. Everything is an answer of the client API with the rights of the user, so no user can see or do
// more than on the command line.
package web

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file defines the addresses and their handlers.

//go:embed page
var files embed.FS

// Options holds the settings of a page. Sessions, Open, or else the page's own secret define who is admitted.
type Options struct {
	// API is the scheduler, with the rights of the user for whom the page is served. With Sessions it is
	// ignored.
	API api.SynapseClient
	// Sessions lets users log in with their own identities.
	Sessions Sessions
	// Open admits every browser, for a scheduler without authentication.
	Open bool
	// Answers reports whether a browser may use this host name. It prevents DNS rebinding, in which another
	// page's name resolves to this server.
	Answers func(host string) bool
	// Secure reports whether browsers connect with TLS.
	Secure bool
	// Program is the name of the program in the commands that the page shows.
	Program string
	// Said returns the code and the text for an error of the API; nil: those of gRPC.
	Said func(error) (messages.Code, string)
	// Made holds the files of a recording's page, which is shown instead of a cluster; nil: a cluster is shown.
	Made map[string][]byte
	// Files reads job files; nil: the page does not offer to submit jobs.
	Files JobFiles
	// Entered receives the next secret each time one was used; may be nil.
	Entered func(next string)
}

// Page serves the page and its requests.
type Page struct {
	o    Options
	way  way
	door *browserLogin // admits browsers with a secret
	mux  *http.ServeMux

	patience time.Duration // limit for a browser that does not read
	linger   time.Duration // how long a watch continues after its last page

	mu      sync.Mutex
	streams int             // open streams
	hubs    map[string]*hub // by user
	waits   waitings
	checks  checking
}

// New creates a page.
func New(o Options) *Page {
	p := &Page{o: o, mux: http.NewServeMux(), hubs: map[string]*hub{}, patience: writeTimeout, linger: lingerFor,
		waits: waitings{all: map[string]*waiting{}}, checks: checking{pause: checkPause, of: map[string]*place{}}}
	static, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	shown := http.FileServerFS(static)
	switch {
	case o.Sessions != nil:
		p.way = &desk{o: o, files: shown}
	case o.Open:
		p.way = open{guest: &Guest{API: o.API}}
	default:
		p.door = newDoor(o)
		p.way = p.door
	}
	if p.o.Said == nil {
		p.o.Said = func(err error) (messages.Code, string) {
			outcome := api.OutcomeOf(err)
			return outcome.GetCode(), outcome.GetText()
		}
	}
	if o.Made != nil {
		p.mux.Handle("GET /", replayed(o.Made))
		return p
	}
	for pattern, answer := range p.addresses(shown) { //order: each has its own address
		p.mux.Handle(pattern, answer)
	}
	return p
}

// addresses returns all handlers that require admission. TestEveryAddressIsDecided lists the rights that each
// needs.
func (p *Page) addresses(shown http.Handler) map[string]http.Handler {
	return map[string]http.Handler{
		"GET /":        begun(shown),
		"GET /app.js":  http.HandlerFunc(app),
		"GET /me":      p.answered(p.me),
		"GET /matches": p.answered(p.labelled),
		"GET /job":     p.answered(p.job),
		"GET /explain": p.answered(p.explain),
		"GET /waiting": p.answered(p.waiting),
		"GET /queues":  p.answered(p.queues),
		"POST /act":    p.answered(p.act),
		"POST /check":  p.filed(p.check),
		"POST /try":    p.filed(p.try),
		"POST /submit": p.filed(p.submit),
		"POST /again":  p.answered(p.again),
		"GET /stream":  http.HandlerFunc(p.stream),
		"GET /nodes":   http.HandlerFunc(p.nodes),
		"GET /logs":    http.HandlerFunc(p.logs),
		"GET /past":    http.HandlerFunc(p.past),
	}
}

// Secret returns the secret that admits one browser once.
func (p *Page) Secret() string { return p.door.secret() }

// ServeHTTP answers a browser.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guardHeaders(w.Header())
	switch {
	case !p.o.Answers(r.Host):
		http.Error(w, "unknown host name: use the address that the server prints", http.StatusMisdirectedRequest)
		return
	case foreign(r, p.o.Secure):
		http.Error(w, "request from another site refused", http.StatusForbidden)
		return
	}
	guest, done := p.way.admits(w, r)
	if guest == nil {
		return
	}
	defer done()
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), guestKey{}, guest))
	defer cancel()
	if guest.Until != nil {
		defer context.AfterFunc(guest.Until, cancel)()
	}
	p.mux.ServeHTTP(w, r.WithContext(ctx))
}

// maxAsked limits the size of a request: a verb, a name and a reason.
const maxAsked = 8 << 10

// writeTimeout limits how long a browser may take to read a part of an answer. A browser that does not read is then
// disconnected.
const writeTimeout = 10 * time.Second

// answered returns a handler that writes the result of ask as JSON, or its error as text.
func (p *Page) answered(ask func(*http.Request) (any, error)) http.HandlerFunc {
	return p.answeredUpTo(maxAsked, ask)
}

// answeredUpTo is answered for requests of at most this size.
func (p *Page) answeredUpTo(most int64, ask func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, most)
		answer, err := ask(r)
		if err != nil {
			p.refuse(w, err)
			return
		}
		var out bytes.Buffer
		if err := json.NewEncoder(&out).Encode(answer); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.patience)) // or the writer has no deadlines
		// the browser may have disconnected
		_, _ = w.Write(out.Bytes())
	}
}
