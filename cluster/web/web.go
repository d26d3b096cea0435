// Package web is the page that shows a cluster to people: its files, and what a browser may ask of a scheduler through
// it. It decides nothing and knows nothing of its own: whatever it shows is an answer of the client API, asked as
// whoever serves the page, so nobody sees or does more by it than by the command line.
package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
)

// This file owns which addresses there are, and what answers at each.

//go:embed page
var files embed.FS

// Options are what a page needs.
type Options struct {
	// API is the scheduler, as seen by the one for whom the page is served.
	API api.SynapseClient
	// Hosts are the names by which browsers may call the server, each with its port: under another name some foreign
	// page would have its own name lead here.
	Hosts []string
	// Program is what the commands that the page shows begin with.
	Program string
	// Said is what an error of the API means, and in words that people can act on; nil: as gRPC has it.
	Said func(error) (messages.Code, string)
	// Entered is told the next secret each time one was used; nil: nobody.
	Entered func(next string)
}

// Page serves the page and all that it asks for.
type Page struct {
	o    Options
	door *door
	mux  *http.ServeMux

	open    sync.Mutex
	streams int // that are open
}

// New makes a page. Nobody gets in without its secret.
func New(o Options) *Page {
	p := &Page{o: o, door: newDoor(o.Hosts, o.Entered), mux: http.NewServeMux()}
	if p.o.Said == nil {
		p.o.Said = func(err error) (messages.Code, string) {
			outcome := api.OutcomeOf(err)
			return outcome.GetCode(), outcome.GetText()
		}
	}
	static, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	p.mux.Handle("GET /", http.FileServerFS(static))
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /me": p.me, "GET /job": p.job, "GET /explain": p.explain, "GET /waiting": p.waiting,
		"GET /queues": p.queues, "POST /act": p.act,
	} { //order: each has its own address
		p.mux.HandleFunc(pattern, p.answered(answer))
	}
	p.mux.HandleFunc("GET /stream", p.stream)
	p.mux.HandleFunc("GET /logs", p.logs)
	return p
}

// Secret lets one browser in, once.
func (p *Page) Secret() string { return p.door.secret() }

// ServeHTTP answers a browser.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guardHeaders(w.Header())
	if p.door.admits(w, r) {
		p.mux.ServeHTTP(w, r)
	}
}

// maxAsked bounds what a browser sends: a verb, a name and a reason.
const maxAsked = 8 << 10

// writeTimeout is how long a browser may take to read a piece of an answer. One that reads nothing is left alone then.
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
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // or it has none
		// a browser that is gone needs no answer
		_, _ = w.Write(out.Bytes())
	}
}
