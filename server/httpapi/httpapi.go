// Package httpapi serves the client API over HTTP and JSON: each gRPC call, transcoded from the same descriptors,
// behind the same interceptors. It decides nothing, knows no roles and stores nothing. It also refuses requests
// that only a web page in a browser would send.
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

// This file defines the URLs and which requests become calls.
//
// Libraries were rejected. vanguard, grpc-gateway and larking each need a gRPC server as an http.Handler or a
// connection, or generated code for each call. Calls would then pass authentication twice or not at all. Each
// library is also larger than the transcoding here, which protojson does.

// Prefix is the start of the URL paths of all calls. The name of the call follows.
const Prefix = "/v1/"

// Options holds the settings of an API.
type Options struct {
	Service *caller.Service
	// Caller returns the sender of a request. Errors that are ErrWho or ErrLater have their own answers.
	Caller func(*http.Request) (*Caller, error)
	// Roots holds the cluster's root certificates, for programs that know the digest of one; nil: none.
	Roots []byte
	// Answers reports whether a request's Host is a name of this server; nil: any name.
	Answers func(host string) bool
}

// Caller is the authenticated sender of a request.
type Caller struct {
	Peer  peer.Peer
	Whom  string          // identity for limits
	Until context.Context // done when the session ends; nil: only the request ends
	Leave func()          // called after the answer; may be nil
	Comes func(call string) (came func(), err error)
}

// API answers requests.
type API struct {
	o      Options
	calls  map[string]*call
	bodies bodies
	beat   time.Duration // interval of empty lines in idle answers
}

// call describes one call of the API.
type call struct {
	name    string // gRPC method name
	in, out protoreflect.MessageType
	asks    bool // its requests are a stream
	answers bool // its answers are a stream
}

// New creates an API.
func New(o Options) *API {
	return &API{o: o, calls: calls(), beat: beatEvery, bodies: bodies{
		room: semaphore.NewWeighted(largeBytes), wait: largeWait, of: map[string]bool{},
	}}
}

// calls returns all calls in the descriptors.
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
		panic(err) // the error is in the program itself
	}
	return t
}

// The content types of a single message, and of a stream with one message per line.
const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
)

// document is the OpenAPI description. tools/protogen writes it, and TestDocument checks it against the
// descriptors.
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
		_, _ = w.Write(document) // the client may have disconnected
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

// walls refuses requests that a web page may have sent in a browser. No web page uses this API, and the API ignores
// cookies. Every request that a browser marks as sent by a page is therefore refused. A browser marks each POST.
// Before a browser sends JSON content, it sends a CORS preflight request, which this server always refuses.
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

// says reports whether the request has the required content type.
func says(r *http.Request, c *call) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == typeJSON || c.asks && kind == typeLines
}

// errOver ends open requests of a caller whose session has ended.
var errOver = &refusal{status: http.StatusUnauthorized, Code: notAllowed, Field: "Authorization",
	Text: "token is no longer valid: revoked, denied or expired"}

// serve makes a call for the sender of a request.
func (a *API) serve(w http.ResponseWriter, r *http.Request, c *call) {
	who, ctx, cancel, done, err := a.enter(r)
	if err != nil {
		refuse(w, err)
		return
	}
	defer done()
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

// enter authenticates the sender of a request. The context ends with the sender's session. The caller calls done after
// the answer.
func (a *API) enter(r *http.Request) (
	who *Caller, ctx context.Context, cancel context.CancelCauseFunc, done func(), err error) {
	if who, err = a.o.Caller(r); err != nil {
		return nil, nil, nil, nil, err
	}
	ctx, cancel = context.WithCancelCause(r.Context())
	ends := func() bool { return true }
	if who.Until != nil {
		ends = context.AfterFunc(who.Until, func() { cancel(errOver) })
	}
	return who, ctx, cancel, func() {
		ends()
		cancel(nil)
		if who.Leave != nil {
			who.Leave()
		}
	}, nil
}
