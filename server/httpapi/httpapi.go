// Package httpapi serves the client API to programs that speak HTTP and JSON: each call of gRPC's, transcoded from the
// same descriptors, behind the same guards. It decides nothing, knows no role and keeps nothing; what it does not let
// through is what no program sends, and what a page in somebody's browser might.
package httpapi

import (
	"context"
	_ "embed"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/caller"
)

// This file owns which addresses there are, and which requests get as far as a call.
//
// The alternatives turned down are libraries. Each of them (vanguard, grpc-gateway, larking) takes a gRPC server as an
// http.Handler or by a connection, or wants code that is generated for each call, so that calls would pass the gate a
// second time or not at all; and each brings more than the transcoding, which protojson does, is long.

// Prefix begins the addresses of all calls: their names follow it.
const Prefix = "/v1/"

// Options configure an API.
type Options struct {
	Service *caller.Service
	// Caller is who makes a request. An error of it that is ErrWho or ErrLater is answered as such.
	Caller func(*http.Request) (*Caller, error)
	// Roots are the certificates by which a scheduler is proved, for a program that knows the digest of one; nil: none.
	Roots []byte
	// Answers reports whether the server may be called by this name, as a request's Host has it; nil: by any.
	Answers func(host string) bool
}

// Caller is somebody for whom a request is answered.
type Caller struct {
	Peer  peer.Peer
	Whom  string          // as which it has its share of what is bounded
	Until context.Context // done when nothing more is answered; nil: with the request
	Leave func()          // the request has been answered; nil: nobody wants to know
	Comes func(call string) (came func(), err error)
}

// API answers requests.
type API struct {
	o      Options
	calls  map[string]*call
	bodies bodies
	beat   time.Duration // of answers in which nothing comes
}

// call is one of the API's.
type call struct {
	name    string // as gRPC has it
	in, out protoreflect.MessageType
	asks    bool // its requests are a stream
	answers bool // and so are its answers
}

// New makes an API.
func New(o Options) *API {
	return &API{o: o, calls: calls(), beat: beatEvery, bodies: bodies{
		room: semaphore.NewWeighted(largeBytes), wait: largeWait, of: map[string]bool{},
	}}
}

// calls returns all calls that the descriptors have.
func calls() map[string]*call {
	all := map[string]*call{}
	methods := api.File_server_api_api_proto.Services().ByName("Synapse").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		all[string(m.Name())] = &call{
			name: "/" + string(m.Parent().FullName()) + "/" + string(m.Name()), in: typeOf(m.Input()), out: typeOf(m.Output()),
			asks: m.IsStreamingClient(), answers: m.IsStreamingServer(),
		}
	}
	return all
}

func typeOf(m protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		panic(err) // its code is part of the program
	}
	return t
}

// The content types of one message, and of a stream of them with each on a line of its own.
const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
)

// document describes the API. tools/protogen writes it, and TestDocument holds it against the descriptors.
//
//go:embed openapi.json
var document []byte

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := a.walls(r); err != nil {
		refuse(w, err)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	c, ok := a.calls[name]
	switch {
	case name == "openapi.json" && r.Method == http.MethodGet:
		h.Set("Content-Type", typeJSON)
		_, _ = w.Write(document) // whoever asked may be gone
	case name == "ca.pem" && r.Method == http.MethodGet && len(a.o.Roots) > 0:
		h.Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(a.o.Roots)
	case !ok:
		refuse(w, &refusal{status: http.StatusNotFound, Code: messages.Code_CODE_NOT_FOUND.String(),
			Text: "unknown call " + name, Hint: "see GET " + Prefix + "openapi.json for a list"})
	case r.Method != http.MethodPost:
		h.Set("Allow", http.MethodPost)
		refuse(w, &refusal{status: http.StatusMethodNotAllowed, Code: invalid,
			Text: "method " + r.Method + " is not supported", Hint: "POST the request as JSON"})
	case !says(r, c):
		refuse(w, &refusal{status: http.StatusUnsupportedMediaType, Code: invalid,
			Field: "Content-Type", Text: "is not " + typeJSON, Hint: "send the request as JSON in UTF-8"})
	default:
		a.serve(w, r, c)
	}
}

// walls keep out what a browser sends on somebody else's behalf. No page calls this API, not even the cluster's own,
// and nothing here goes by a cookie: so whatever says that a page sends it is refused, from wherever. A browser says so
// of each POST, and of one whose content is JSON it asks first, which nobody allows it.
func (a *API) walls(r *http.Request) error {
	if a.o.Answers != nil && !a.o.Answers(r.Host) {
		return &refusal{status: http.StatusMisdirectedRequest, Code: notAllowed, Field: "Host",
			Text: "host name is not accepted by this server", Hint: "use its address, or the name in --advertise"}
	}
	for _, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Cookie"} {
		if r.Header.Get(name) != "" {
			return &refusal{status: http.StatusForbidden, Code: notAllowed, Field: name,
				Text: "browser requests from other pages are refused", Hint: "omit this header"}
		}
	}
	return nil
}

// says reports whether the request is said to be what it must be.
func says(r *http.Request, c *call) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == typeJSON || c.asks && kind == typeLines
}

// errOver ends what is open of a caller who is let in no longer.
var errOver = &refusal{status: http.StatusUnauthorized, Code: notAllowed, Field: "Authorization",
	Text: "token is no longer valid: it is revoked, denied or expired"}

// serve makes a call as whoever asks.
func (a *API) serve(w http.ResponseWriter, r *http.Request, c *call) {
	who, err := a.o.Caller(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if who.Leave != nil {
		defer who.Leave()
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if who.Until != nil {
		defer context.AfterFunc(who.Until, func() { cancel(errOver) })()
	}
	on := a.o.Service.Line(who.Peer)
	if c.asks {
		a.converse(ctx, cancel, w, r, c, on)
		return
	}
	q := c.in.New().Interface()
	switch err := a.read(w, r, c, who, q); {
	case err != nil:
		refuse(w, err)
	case c.answers:
		a.stream(ctx, w, c, on, q)
	default:
		once(ctx, w, c, on, q)
	}
}
