package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/clients/go/contextfile"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file makes one request to the JSON API of the scheduler. It chooses the scheduler like synapse-cli, and leaves
// all settings that it does not know to synapse-cli.

const (
	defaultServer = "localhost:9000"
	// within limits the request. After it, synapse-cli repeats the request and waits for longer.
	within = 5 * time.Second
	// maxContexts limits the file of contexts, as in synapse-cli.
	maxContexts = 1 << 20
	// maxAnswer limits the answer to a submit.
	maxAnswer = 64 << 10
	// maxHeader limits the header of an answer.
	maxHeader = 64 << 10
)

// server is a scheduler and the way to it.
type server struct {
	address string // host:port, or unix:PATH
	folder  string // of the user's certificate; empty: none
	token   string // of the user; empty: none
}

// unserved lists the settings that only synapse-cli understands.
var unserved = []string{"CONFIG", "CONTEXT", "RETRY", "TOKEN", "TOKEN_FILE", "CA", "CERT", "KEY"}

// settings returns the scheduler of this call. It reports false if synapse-cli must decide.
func (c *call) settings() (server, bool) {
	for _, name := range unserved {
		if c.variable("SYNAPSE_"+name) != "" {
			return server{}, false
		}
	}
	s := server{address: c.variable("SYNAPSE_SERVER"), folder: c.variable("SYNAPSE_TLS")}
	if s.address != "" || s.folder != "" {
		if s.address == "" {
			s.address = defaultServer
		}
		return s, !strings.ContainsAny(s.address, ", ")
	}
	if path := contextfile.Path(c.variable); path != "" {
		text, err := identity.ReadPrivate(path, maxContexts)
		if err == nil {
			return loggedIn(string(text))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return server{}, false
		}
	}
	s.address = defaultServer
	if path := unixsocket.Path(unixsocket.DataDir); unixsocket.Mine(path) {
		s.address = unixsocket.Scheme + path
	}
	return s, true
}

// loggedIn returns the scheduler of the current context.
func loggedIn(contexts string) (server, bool) {
	entry, ok := contextfile.Current(contexts)
	if !ok || strings.ContainsAny(entry.Server, ", ") || entry.TLS != "" && entry.Token != "" {
		return server{}, false
	}
	s := server{address: entry.Server, folder: entry.TLS, token: entry.Token}
	return s, s.token == "" || !strings.HasPrefix(s.address, unixsocket.Scheme)
}

// identifies reports whether the scheduler learns the identity of the user.
func (s server) identifies() bool {
	return s.folder != "" || s.token != "" || strings.HasPrefix(s.address, unixsocket.Scheme)
}

// dial connects to the scheduler and verifies it.
func (s server) dial(ctx context.Context) (net.Conn, error) {
	if path, is := strings.CutPrefix(s.address, unixsocket.Scheme); is {
		return dialSocket(ctx, path)
	}
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil || config == nil {
		return conn, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// The protocols of an HTTP client with a certificate, and of one that verifies the scheduler before it sends a token.
const (
	protocolHTTP  = "http/1.1"
	protocolToken = "synapse-http/1"
	tokenPrefix   = "synapselogin1"
)

// config returns the TLS configuration, or nil for a connection without TLS.
func (s server) config() (config *tls.Config, err error) {
	if s.token != "" {
		cluster, root, _, ok := identity.SplitToken(s.token, tokenPrefix)
		if !ok {
			return nil, errors.New("not a token of this cluster")
		}
		config = identity.PinnedConfig(cluster, root, nil, nil)
		config.NextProtos = []string{protocolToken}
		return config, nil
	}
	if s.folder != "" {
		if identity.IsExternal(s.folder) {
			return nil, errors.New("certificate of an outside issuer")
		}
		folder, err := identity.OpenFolder(s.folder)
		if err != nil {
			return nil, err
		}
		own, err := folder.Identity()
		if err == nil && !slices.Contains(identity.People, own.Role) {
			err = errors.New("not the certificate of a user")
		}
		if err != nil {
			return nil, err
		}
		trust, err := folder.Trust()
		if err != nil {
			return nil, err
		}
		config = trust.ClientConfig(func() *identity.Pair { return folder.Pair }, nil)
		config.NextProtos = []string{protocolHTTP}
	}
	return config, nil
}

// admitted is the frame with which the scheduler admits a user on its socket: its length, and a zero.
var admitted = []byte{0, 0, 0, 1, 0}

// dialSocket connects to the socket of a scheduler on this host.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	conn, err := unixsocket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, len(admitted))
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err = io.ReadFull(conn, frame); err == nil && !bytes.Equal(frame, admitted) {
		err = errors.New("the scheduler refused this user")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// post sends JSON to a path, and returns the body of a successful answer with at most limit bytes, or nil. sent reports
// whether the scheduler may have received the request.
func (s server) post(path string, body []byte, limit int) (answer []byte, sent bool) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	host := s.address
	if strings.HasPrefix(host, unixsocket.Scheme) {
		host = "localhost"
	}
	authorization := ""
	if s.token != "" {
		authorization = "Authorization: Bearer " + s.token + "\r\n"
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"%sConnection: close\r\n\r\n", path, host, len(body), authorization)
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		return nil, true
	}
	return bodyOf(conn, limit), true
}

// bodyOf returns the body of a complete answer with status 200, or nil.
func bodyOf(conn io.Reader, limit int) []byte {
	in := bufio.NewReader(io.LimitReader(conn, int64(maxHeader+limit)))
	status, err := in.ReadString('\n')
	if err != nil || !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		return nil
	}
	length := -1
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return nil
			}
		}
	}
	if length < 0 || length > limit {
		return nil
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil
	}
	return body
}
