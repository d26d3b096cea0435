// Package httpmux serves plain HTTP next to gRPC on the scheduler's port. It runs after connlimit and authn's
// handshake, and before gRPC. Connections for gRPC pass unchanged, with gRPC's own transport, keepalive and limits.
// The package limits the cost of visitors (HTTP clients) and does not know the served pages.
package httpmux

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/cluster/credential"
)

// This file distinguishes HTTP from gRPC, and passes a visitor's connection to the handler.
//
// A rejected alternative is gRPC's ServeHTTP behind one http.Server. It lacks gRPC's keepalive and flow control, so
// the link of every node would pay for rarely used pages.

// The limits per visitor and in total. An unauthenticated visitor also counts as a handshake in progress in
// connlimit, and has the time limit of a handshake.
const (
	maxVisitors  = 64    // unauthenticated visitors
	maxGuests    = 1_024 // authenticated visitors; an open page is one, and its stream another
	maxHeader    = 16 << 10
	headerWithin = 5 * time.Second
	readWithin   = 10 * time.Second
	writeWithin  = 30 * time.Second
	idleFor      = 30 * time.Second
)

// These are the names of the counters.
const (
	countVisits  = "doorway.visits"
	countRefused = "doorway.refused" // a limit was reached
)

// Visitor is the result of a handshake for HTTP. It reports whether the visitor is authenticated.
type Visitor interface {
	credentials.AuthInfo
	Known() bool
}

// Options holds the settings of a multiplexer. Log and Count are optional.
type Options struct {
	Handler http.Handler
	Log     func(format string, args ...any)
	Count   func(name string, n int64)
}

// Mux separates HTTP from gRPC on a scheduler's port, and serves HTTP.
type Mux struct {
	o       Options
	server  *http.Server
	waiting chan net.Conn
	room    chan struct{} // one value per unauthenticated visitor
	guests  chan struct{} // one value per authenticated visitor
	closed  chan struct{}
	closing sync.Once
}

// New starts a multiplexer. Close ends it.
func New(o Options) *Mux {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Count == nil {
		o.Count = func(string, int64) {}
	}
	d := &Mux{
		o: o, waiting: make(chan net.Conn), closed: make(chan struct{}),
		room: make(chan struct{}, maxVisitors), guests: make(chan struct{}, maxGuests),
	}
	d.server = &http.Server{
		Handler: o.Handler, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: headerWithin, ReadTimeout: readWithin, WriteTimeout: writeWithin, IdleTimeout: idleFor,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, visitKey{}, c.(*visit))
		},
	}
	go func() { _ = d.server.Serve(visits{d}) }() // ends only with Close
	return d
}

// Close ends all visits.
func (d *Mux) Close() {
	d.closing.Do(func() {
		close(d.closed)
		_ = d.server.Close()
	})
}

// Credentials wraps the credentials of gRPC's server: the multiplexer runs after their handshake. Without TLS, the
// first bytes of a connection select the protocol. With TLS, the negotiated protocol does, because an
// unauthenticated visitor must not reach gRPC.
func (d *Mux) Credentials(inner credentials.TransportCredentials) credentials.TransportCredentials {
	return beside{inner, d}
}

type beside struct {
	credentials.TransportCredentials
	mux *Mux
}

// errServed ends a connection that gRPC does not get.
var errServed = errors.New("HTTP connection was served")

// ServerHandshake serves visitors until they disconnect. Other connections continue to gRPC.
func (b beside) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := b.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	who, visits := info.(Visitor)
	v := &visit{Conn: conn, info: info, mux: b.mux, over: make(chan struct{})}
	v.entrant, _ = raw.(credential.Entrant)
	if visits {
		return nil, nil, b.mux.serve(v, who.Known())
	}
	if b.Info().SecurityProtocol == "tls" {
		return conn, info, nil
	}
	again, visits, err := Told(conn)
	if visits {
		v.Conn = again
		return nil, nil, b.mux.serve(v, false)
	}
	return again, info, err
}

// Told reports whether a connection without a negotiated protocol belongs to a visitor, by its first bytes. The
// returned connection can read these bytes again.
func Told(conn net.Conn) (again net.Conn, visits bool, err error) {
	var words [4]byte
	if _, err := io.ReadFull(conn, words[:]); err != nil {
		return nil, false, err
	}
	p := &peeked{Conn: conn}
	p.words.Reset(string(words[:]))
	return p, slices.Contains(methods, string(words[:])), nil
}

// Clone keeps the multiplexer.
func (b beside) Clone() credentials.TransportCredentials {
	return beside{b.TransportCredentials.Clone(), b.mux}
}

// methods lists how requests of HTTP/1.1 begin. HTTP/2 begins with PRI.
var methods = []string{"GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC"}

// peeked is a connection that returns its first bytes again.
type peeked struct {
	net.Conn
	words strings.Reader
}

// CloseWrite closes the sending direction, if the connection supports this.
func (c *peeked) CloseWrite() error {
	if half, ok := c.Conn.(credential.HalfCloser); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

func (c *peeked) Read(b []byte) (int, error) {
	if c.words.Len() > 0 {
		return c.words.Read(b)
	}
	return c.Conn.Read(b)
}

// serve passes a connection to the HTTP server and waits for its end. gRPC's handshake lasts as long, so gRPC
// counts the connection until then.
func (d *Mux) serve(v *visit, known bool) error {
	select {
	case d.room <- struct{}{}:
		v.place = d.room
	default:
		d.o.Count(countRefused, 1)
		return errors.Join(errors.New("too many HTTP connections are open"), sendAway(v.Conn))
	}
	defer v.leave()
	if known {
		v.enter()
	}
	d.o.Count(countVisits, 1)
	select {
	case d.waiting <- v:
	case <-d.closed:
		return errors.Join(net.ErrClosed, v.Conn.Close())
	}
	<-v.over
	return errServed
}

// tooMany is the answer to a visitor beyond the limits.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// sendAway answers that there are too many visitors, and closes. It first reads the visitor's request for at most a
// second. Closing a connection with unread data would reset it, and the answer would be lost.
func sendAway(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, err := io.WriteString(c, tooMany)
	if half, ok := c.(credential.HalfCloser); ok && err == nil && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, maxHeader)
	}
	return errors.Join(err, c.Close())
}

// visit is one visitor's connection.
type visit struct {
	net.Conn
	info    credentials.AuthInfo
	mux     *Mux
	entrant credential.Entrant // nil: the connection needs no report
	over    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	place chan struct{} // the channel in which it has a place; nil: none
}

// enter moves a visit to the authenticated visitors. If there are too many of these, the visit stays where it is.
func (v *visit) enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.place != v.mux.room {
		return
	}
	select {
	case v.mux.guests <- struct{}{}:
		<-v.place
		v.place = v.mux.guests
	default:
		return
	}
	if v.entrant != nil {
		v.entrant.Entered()
	}
}

// leave frees the place of a visit.
func (v *visit) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	<-v.place
	v.place = nil
}

// Close ends the visit.
func (v *visit) Close() error {
	err := v.Conn.Close()
	v.once.Do(func() { close(v.over) })
	return err
}

type visitKey struct{}

// InfoOf returns the handshake result of a request's connection, or nil if it did not pass a multiplexer.
func InfoOf(r *http.Request) credentials.AuthInfo {
	v, ok := r.Context().Value(visitKey{}).(*visit)
	if !ok {
		return nil
	}
	return v.info
}

// Entered reports that a request has authenticated its sender, for example with a cookie. Its connection then no
// longer counts as a handshake in progress.
func Entered(r *http.Request) {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		v.enter()
	}
}

// AddressOf returns the remote address of a request, or nil if it did not pass a multiplexer.
func AddressOf(r *http.Request) net.Addr {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return v.RemoteAddr()
	}
	return nil
}

// visits is the multiplexer's listener for the HTTP server.
type visits struct{ d *Mux }

func (v visits) Accept() (net.Conn, error) {
	select {
	case c := <-v.d.waiting:
		return c, nil
	case <-v.d.closed:
		return nil, net.ErrClosed
	}
}

func (v visits) Close() error   { return nil }
func (v visits) Addr() net.Addr { return &net.TCPAddr{} }
