// Package slurmrest serves the part of Slurm's REST API (slurmrestd) that portals and generated clients use, on the
// port of the client API, for the same users and with the same rights. Each request becomes calls of the client API.
// Package slurm translates the answers, and the description of a job becomes options of sbatch.
package slurmrest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/httpapi"
)

// This file defines the URLs, and admits the sender of a request.

// The starts of the URL paths. The version of the data parser follows, as in /slurm/v0.0.42/jobs.
const (
	Prefix   = "/slurm/"
	DBPrefix = "/slurmdb/"
)

// The headers with which clients of Slurm authenticate.
const (
	userHeader  = "X-SLURM-USER-NAME"
	tokenHeader = "X-SLURM-USER-TOKEN"
)

// Options holds the settings of a handler.
type Options struct {
	API  *httpapi.API // admits the senders of requests
	Host string       // name of this host, for ping and SLURM_SUBMIT_HOST
	Now  func() time.Time
}

// Handler answers requests.
type Handler struct {
	o       Options
	listing chan struct{} // one value per list that is being written
}

const (
	// maxListings limits how many long lists are written at once. Each needs memory for all jobs.
	maxListings = 4
	// listingWait limits the wait for a place.
	listingWait = 3 * time.Second
)

// New creates a handler.
func New(o Options) *Handler {
	return &Handler{o: o, listing: make(chan struct{}, maxListings)}
}

// exchange is a request and its answer.
type exchange struct {
	*Handler
	w       http.ResponseWriter
	http    *http.Request
	ctx     context.Context
	visit   *httpapi.Visit
	c       *client.Client
	who     *api.WhoAmIReply
	version *version
	plugin  string
	found   []warning
}

// endpoint is one URL. name is the last part of its path; nil methods are not supported.
type endpoint struct {
	prefix, path string
	named        bool // a name follows the path
	methods      map[string]func(q *exchange, name string) error
}

// endpoints lists the URLs.
var endpoints = []endpoint{
	{Prefix, "ping", false, only((*exchange).ping)}, {Prefix, "diag", false, only((*exchange).diag)},
	{Prefix, "jobs", false, only((*exchange).jobs)},
	{Prefix, "job/submit", false, map[string]func(*exchange, string) error{http.MethodPost: (*exchange).submit}},
	{Prefix, "job", true, map[string]func(*exchange, string) error{
		http.MethodGet: (*exchange).job, http.MethodPost: (*exchange).update, http.MethodDelete: (*exchange).cancel,
	}},
	{Prefix, "nodes", false, only((*exchange).nodes)},
	{Prefix, "node", true, map[string]func(*exchange, string) error{
		http.MethodGet: (*exchange).nodes, http.MethodPost: (*exchange).changeNode,
	}},
	{Prefix, "partitions", false, only((*exchange).partitions)}, {Prefix, "partition", true, only((*exchange).partitions)},
	{Prefix, "reservations", false, only((*exchange).reservations)},
	{DBPrefix, "jobs", false, only((*exchange).pastJobs)}, {DBPrefix, "job", true, only((*exchange).pastJobs)},
}

// only returns the methods of a URL that only reads.
func only(get func(*exchange, string) error) map[string]func(*exchange, string) error {
	return map[string]func(*exchange, string) error{http.MethodGet: get}
}

// find returns the URL of a path after the version, and the name in it.
func find(prefix, path string) (e *endpoint, name string) {
	path = strings.TrimSuffix(path, "/")
	for i := range endpoints {
		switch e := &endpoints[i]; {
		case e.prefix != prefix:
		case !e.named && e.path == path:
			return e, ""
		case e.named && strings.HasPrefix(path, e.path+"/"):
			if name = path[len(e.path)+1:]; name != "" && !strings.Contains(name, "/") && path != "job/submit" {
				return e, name
			}
		}
	}
	return nil, ""
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &exchange{Handler: h, w: w, http: r, version: &versions[0], plugin: "slurmctld"}
	prefix := Prefix
	if strings.HasPrefix(r.URL.Path, DBPrefix) {
		prefix, q.plugin = DBPrefix, "slurmdbd"
	}
	if err := q.serve(prefix); err != nil {
		q.fail(err)
	}
}

// serve finds the endpoint, admits the sender and calls the endpoint.
func (q *exchange) serve(prefix string) error {
	if err := authorize(q.http.Header); err != nil {
		return err
	}
	visit, done, err := q.o.API.Open(q.w, q.http)
	if err != nil {
		return err
	}
	defer done()
	q.visit, q.ctx = visit, visit.Context
	q.c = client.Over(api.NewSynapseClient(line{visit.Line}))
	if q.who, err = q.c.WhoAmI(q.ctx, &api.WhoAmI{}); err != nil {
		return err
	}
	name := q.http.Header.Get(userHeader)
	if name != "" && q.identified() && name != q.who.GetName() {
		return &problem{status: http.StatusUnauthorized, number: authFail, description: userHeader +
			" is not the user of the token: omit the header, or use the token of this user"}
	}
	number, path, _ := strings.Cut(strings.TrimPrefix(q.http.URL.Path, prefix), "/")
	if number == ofSubmit && prefix == Prefix {
		return q.command(path)
	}
	at := slices.IndexFunc(versions, func(v version) bool { return v.number == number })
	e, name := find(prefix, path)
	if at < 0 || e == nil {
		return &problem{status: http.StatusNotFound, number: unknownURL,
			description: "there is no " + q.http.URL.Path + ": this server has the versions " + served()}
	}
	q.version = &versions[at]
	do := e.methods[q.http.Method]
	if do == nil {
		return &problem{status: http.StatusMethodNotAllowed, number: unknownMethod,
			description: q.http.Method + " is not supported at " + q.http.URL.Path}
	}
	return do(q, name)
}

// identified reports whether this port has logins.
func (q *exchange) identified() bool { return q.who.GetCluster() != "" }

// authorize moves a token from Slurm's header to the header of the client API.
func authorize(h http.Header) error {
	token := h.Get(tokenHeader)
	switch {
	case token == "":
		return nil
	case h.Get("Authorization") != "":
		return &problem{status: http.StatusUnauthorized, number: authFail,
			description: tokenHeader + " and Authorization are both set: use one of them"}
	}
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// line makes calls, and returns errors in the form of package client.
type line struct{ grpc.ClientConnInterface }

// Invoke makes a call.
func (l line) Invoke(ctx context.Context, method string, in, out any, more ...grpc.CallOption) error {
	return explained(ctx, l.ClientConnInterface.Invoke(ctx, method, in, out, more...))
}

// list takes a place for a long list. The caller calls done after the list was written.
func (q *exchange) list() (done func(), err error) {
	ctx, cancel := context.WithTimeout(q.ctx, listingWait)
	defer cancel()
	select {
	case q.listing <- struct{}{}:
		return func() { <-q.listing }, nil
	case <-ctx.Done():
		q.w.Header().Set("Retry-After", "1")
		return nil, &problem{status: http.StatusTooManyRequests, number: backoff,
			description: "too many lists are being read: try again in a second"}
	}
}

// meta describes the answer.
func (q *exchange) meta() map[string]any {
	source := q.http.RemoteAddr
	return slurm.ServiceMeta(q.version.number, q.plugin, source, q.who.GetName())
}
