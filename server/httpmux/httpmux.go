// Package httpmux lets plain HTTP in beside gRPC, on the scheduler's one port. It stands behind connlimit and authn's
// handshake, and before gRPC: a connection that is for gRPC goes on as if the multiplexer were not there, with gRPC's
// own transport, keepalive and limits. It owns what a visitor may cost, and knows nothing of what is served.
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

// This file owns how the two are told apart, and how a visitor's connection gets to the handler.
//
// The alternative turned down is gRPC's own ServeHTTP behind one http.Server: it has neither gRPC's keepalive nor its
// flow control, so that every machine's link would pay for a page that is seldom looked at.

// The limits of one visitor, and of all. Whoever has not proved who it is stands among those whose handshake is under
// way as well, as far as connlimit is concerned, and has the time of one.
const (
	maxVisitors  = 64    // of whom nothing is proved
	maxGuests    = 1_024 // of whom it is: a page that is open is one, and its stream another
	maxHeader    = 16 << 10
	headerWithin = 5 * time.Second
	readWithin   = 10 * time.Second
	writeWithin  = 30 * time.Second
	idleFor      = 30 * time.Second
)

// The counters.
const (
	countVisits  = "doorway.visits"
	countRefused = "doorway.refused" // there were too many
)

// Visitor says what a handshake found of a connection that is for HTTP: whether it proved who comes.
type Visitor interface {
	credentials.AuthInfo
	Known() bool
}

// Options configure a multiplexer. Log and Count may be left out.
type Options struct {
	Handler http.Handler
	Log     func(format string, args ...any)
	Count   func(name string, n int64)
}

// Mux tells HTTP from gRPC on a scheduler's port, and serves the former.
type Mux struct {
	o       Options
	server  *http.Server
	waiting chan net.Conn
	room    chan struct{} // a place for each of whom nothing is proved
	guests  chan struct{} // and for each of whom it is
	closed  chan struct{}
	closing sync.Once
}

// New opens a multiplexer. Its Close ends it.
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
	go func() { _ = d.server.Serve(visits{d}) }() // it ends with Close alone
	return d
}

// Close ends all visits.
func (d *Mux) Close() {
	d.closing.Do(func() {
		close(d.closed)
		_ = d.server.Close()
	})
}

// Credentials returns those of gRPC's server with the multiplexer behind their handshake. Without TLS a connection is
// told by its first words; with it by what was negotiated, since a visitor need not prove anything and must not get to
// gRPC.
func (d *Mux) Credentials(inner credentials.TransportCredentials) credentials.TransportCredentials {
	return beside{inner, d}
}

type beside struct {
	credentials.TransportCredentials
	mux *Mux
}

// errServed ends a connection for gRPC, which has never heard of it.
var errServed = errors.New("it was a visitor, and has been served")

// ServerHandshake serves visitors, for as long as they stay; all others go on to gRPC.
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

// Told reports whether a connection of which nothing was negotiated is a visitor's, by its first words. They can be
// read again.
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

// peeked is a connection whose first words have been read; it gives them again.
type peeked struct {
	net.Conn
	words strings.Reader
}

// CloseWrite ends what is sent alone, if the connection can.
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

// serve hands a connection to the HTTP server, and waits for its end: gRPC's handshake goes on until then, and counts
// it among its own when it ends.
func (d *Mux) serve(v *visit, known bool) error {
	select {
	case d.room <- struct{}{}:
		v.place = d.room
	default:
		d.o.Count(countRefused, 1)
		return errors.Join(errors.New("there are too many visitors"), sendAway(v.Conn))
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

// tooMany is the answer to a visitor for whom there is no room.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// sendAway answers that there are too many, and closes. What the visitor has sent is read first, for a second at most:
// a connection that is closed with something unread is reset, and the answer would be lost.
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
	entrant credential.Entrant // nil: nobody waits to hear of it
	over    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	place chan struct{} // the places of which it has one; nil: none any more
}

// enter takes a visit from among the strangers. Where there are too many guests it stays there.
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

// leave gives the place back.
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

// InfoOf returns what the handshake said of whoever makes a request; nil: it came through no multiplexer.
func InfoOf(r *http.Request) credentials.AuthInfo {
	v, ok := r.Context().Value(visitKey{}).(*visit)
	if !ok {
		return nil
	}
	return v.info
}

// Entered says that whoever makes a request has proved by it who it is, as by a cookie: its connection no longer stands
// among those whose handshake is under way.
func Entered(r *http.Request) {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		v.enter()
	}
}

// AddressOf returns where whoever makes a request comes from; nil: it came through no multiplexer.
func AddressOf(r *http.Request) net.Addr {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return v.RemoteAddr()
	}
	return nil
}

// visits is the multiplexer as the HTTP server knows it: a listener.
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
