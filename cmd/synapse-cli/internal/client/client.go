// Package client is a connection to a scheduler. It owns the way there, each
// call's deadline, and that whatever goes wrong comes back as an *Error in words
// that a user can act on: nobody should read gRPC's.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
)

const (
	// callTimeout bounds a call whose context has no deadline of its own. Streams have none.
	callTimeout = 30 * time.Second
	dialTimeout = 5 * time.Second
)

// Config says where a scheduler is, and how to speak to it.
type Config struct {
	Server        string // host:port
	CA, Cert, Key string // files; none: no TLS
}

// Client is one connection. Its calls are those of the API.
type Client struct {
	api.SynapseClient
	server string
	conn   *grpc.ClientConn
	dialed atomic.Pointer[error] // how the last attempt to reach the server went
}

// Dial makes a connection; the server is reached with the first call.
func Dial(c Config) (*Client, error) {
	if _, _, err := net.SplitHostPort(c.Server); err != nil {
		return nil, &Error{Code: messages.Code_CODE_INVALID, Text: fmt.Sprintf("%q is not the address of a scheduler", c.Server), Hint: "write host:port, as in localhost:9000"}
	}
	secure, err := c.credentials()
	if err != nil {
		return nil, &Error{Code: messages.Code_CODE_INVALID, Text: err.Error(), Hint: "ca, cert and key are the names of PEM files"}
	}
	client := &Client{server: c.Server}
	// The dialer is ours so that why it failed is known in its own words, and
	// passthrough, because it resolves names itself.
	client.conn, err = grpc.NewClient("passthrough:///"+c.Server,
		grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(client.dial),
		grpc.WithUnaryInterceptor(client.unary),
		grpc.WithStreamInterceptor(client.stream),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(api.MaxReplyBytes)),
	)
	if err != nil {
		return nil, &Error{Code: messages.Code_CODE_INVALID, Text: err.Error()}
	}
	client.SynapseClient = api.NewSynapseClient(client.conn)
	return client, nil
}

// Close ends the connection, and every call on it.
func (c *Client) Close() { c.conn.Close() }

// Server is where it leads.
func (c *Client) Server() string { return c.server }

func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	c.dialed.Store(&err)
	return conn, err
}

func (c *Config) credentials() (credentials.TransportCredentials, error) {
	if c.CA == "" && c.Cert == "" && c.Key == "" {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: there is no certificate in %s", c.CA)
		}
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// answer is what every reply that can refuse has.
type answer interface{ GetOutcome() *messages.Outcome }

func (c *Client) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	caller := ctx
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	err := invoke(ctx, method, request, reply, conn, options...)
	if a, is := reply.(answer); is && err == nil && a.GetOutcome() != nil {
		err = api.StatusOf(a.GetOutcome())
	}
	return c.explain(caller, err)
}

func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return &explained{s, c, ctx}, nil
}

// explained is a stream whose errors are ours. Its end stays io.EOF.
type explained struct {
	grpc.ClientStream
	client *Client
	caller context.Context
}

func (s *explained) RecvMsg(m any) error {
	return s.client.explain(s.caller, s.ClientStream.RecvMsg(m))
}

// Lost tells whether an error may pass if one tries again: the scheduler is not
// there now, or another one is taking over.
func Lost(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == messages.Code_CODE_UNAVAILABLE
}
