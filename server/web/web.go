// Package web serves the page that shows a cluster to people: its files, and what a browser may ask of a scheduler
// through it. It decides nothing and knows nothing of its own: whatever it shows is an answer of the client API, asked
// as whoever serves the page, so nobody sees or does more by it than by the command line.
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

// This file owns which addresses there are, and what answers at each.

//go:embed page
var files embed.FS

// Options configure a page. Who gets in is said by Sessions, or Open, or else by the page's own secret.
type Options struct {
	// API is the scheduler, as seen by the one for whom the page is served; of no use with Sessions.
	API api.SynapseClient
	// Sessions lets people log in, each as who they are.
	Sessions Sessions
	// Open lets everybody in, as it is where the scheduler takes calls of everybody.
	Open bool
	// Answers reports whether a browser may call the server by this name, as a request's Host has it: under another name
	// some foreign page would have its own name lead here.
	Answers func(host string) bool
	// Secure says that browsers come by TLS.
	Secure bool
	// Program is what the commands that the page shows begin with.
	Program string
	// Said is what an error of the API means, and in words that people can act on; nil: as gRPC has it.
	Said func(error) (messages.Code, string)
	// Made are the files of a record's page, which is shown in place of the cluster's; nil: it is the cluster's.
	Made map[string][]byte
	// Entered is told the next secret each time one was used; nil: nobody.
	Entered func(next string)
}

// Page serves the page and all that it asks for.
type Page struct {
	o    Options
	way  way
	door *browserLogin // the way of a page with a secret
	mux  *http.ServeMux

	patience time.Duration // with a browser that reads nothing
	linger   time.Duration // how long a watch stays whose last page has gone

	mu      sync.Mutex
	streams int             // that are open
	hubs    map[string]*hub // by whose they are
	waits   waitings
}

// New makes a page.
func New(o Options) *Page {
	p := &Page{o: o, mux: http.NewServeMux(), hubs: map[string]*hub{}, patience: writeTimeout, linger: lingerFor,
		waits: waitings{all: map[string]*waiting{}}}
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

// addresses returns all there are, behind the way in. TestEveryAddressIsDecided has which right each needs.
func (p *Page) addresses(shown http.Handler) map[string]http.Handler {
	return map[string]http.Handler{
		"GET /":        shown,
		"GET /me":      p.answered(p.me),
		"GET /job":     p.answered(p.job),
		"GET /explain": p.answered(p.explain),
		"GET /waiting": p.answered(p.waiting),
		"GET /queues":  p.answered(p.queues),
		"POST /act":    p.answered(p.act),
		"GET /stream":  http.HandlerFunc(p.stream),
		"GET /logs":    http.HandlerFunc(p.logs),
		"GET /past":    http.HandlerFunc(p.past),
	}
}

// Secret lets one browser in, once; of a page that has a secret.
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

// maxAsked bounds what a browser sends: a verb, a name and a reason.
const maxAsked = 8 << 10

// writeTimeout bounds the time that a browser may take to read a piece of an answer. One that reads nothing is left
// alone then.
const writeTimeout = 10 * time.Second

// answered writes what a question is answered as JSON, and an error as its words.
func (p *Page) answered(ask func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxAsked)
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
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.patience)) // or it has none
		// a browser that is gone needs no answer
		_, _ = w.Write(out.Bytes())
	}
}
