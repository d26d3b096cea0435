// Package client submits jobs to Synapse from a Go program and follows them. synapse-cli uses this package.
//
// Dial creates a Client. A Client has every call of the API (api.SynapseClient) and finds the leading
// scheduler. Send submits a job. Wait and Follow report changes of a job. Logs reads its output. ExplainJob
// explains why it waits. Package jobfile reads the YAML files of `synapse-cli submit`. A failed call returns
// an *Error: one line of text, a hint, and a code for programs.
package client

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/unixsocket"
)

const (
	// callTimeout limits a call whose context has no deadline. Streams have no limit.
	callTimeout = 30 * time.Second
	dialTimeout = 5 * time.Second
)

const (
	// DefaultServer is the address that a program uses if no scheduler is configured.
	DefaultServer = "localhost:9000"
	// DefaultRetry is the time for which an interactive program retries a call while no scheduler leads.
	DefaultRetry = 10 * time.Second
	// MaxTokenBytes limits the size of a token file.
	MaxTokenBytes = 16 << 10
)

// Config holds the addresses of the schedulers and the credentials for them.
type Config struct {
	Server        string // host:port, or unix:PATH of a local scheduler's socket; several are separated by commas
	TLS           string // folder of a user's certificate, or file of an outside issuer; empty: see prove
	Token         string // a user's token as it was printed; requires an empty TLS
	CA, Cert, Key string // files, for a proxy that adds TLS to the scheduler; none: no TLS
	// Retry is the time for which a call is retried while no scheduler leads.
	Retry time.Duration
	// Waiting, if set, is called once per call when the retries begin.
	Waiting func(error)
	// Fresh returns the token for the next connection and its expiry. If nil, all connections use Token.
	Fresh func(ctx context.Context) (token string, until time.Time, err error)
}

// Client makes the calls of the API to the leading scheduler. leader.go contains the search for the leader.
type Client struct {
	api.SynapseClient
	config  Config
	badge   *credential.Badge                // nil: secure has the credentials
	bearer  *credential.Bearer               // nil: no token
	secure  credentials.TransportCredentials // nil: plaintext
	reached atomic.Bool                      // a scheduler has answered, so waiting for one makes sense
	until   atomic.Pointer[time.Time]        // expiry of the last token that was sent; nil: unknown

	mu      sync.Mutex
	servers []*server // the configured ones, then those that they named
	at      int       // index of the server to ask next
}

// server holds the address of one scheduler and the connection to it.
type server struct {
	address string
	conn    *grpc.ClientConn
	dialed  atomic.Pointer[error] // result of the last connection attempt
	refused atomic.Pointer[credential.Refused]
	stale   atomic.Pointer[error] // why no token was available at the last attempt
}

// Dial creates a client. The first call connects to a server.
func Dial(c Config) (*Client, error) {
	client := &Client{config: c}
	if err := client.prove(); err != nil {
		return nil, err
	}
	for address := range strings.SplitSeq(c.Server, ",") {
		address = strings.TrimSpace(address)
		if !isAddress(address) {
			client.Close()
			return nil,
				&Error{Code: messages.Code_CODE_INVALID, Text: fmt.Sprintf("%q is not a scheduler address", address),
					Hint: "write host:port, as in localhost:9000, or unix:PATH; separate several with commas"}
		}
		if client.find(address) < 0 {
			if err := client.add(address); err != nil {
				client.Close()
				return nil, err
			}
		}
	}
	client.SynapseClient = api.NewSynapseClient(client)
	return client, nil
}

// Over returns a client that makes its calls through another one. It finds jobs and nodes, and has no servers.
func Over(calls api.SynapseClient) *Client { return &Client{SynapseClient: calls} }

// isAddress reports whether a text can be the address of a scheduler.
func isAddress(text string) bool {
	if path, ok := strings.CutPrefix(text, unixsocket.Scheme); ok {
		return path != ""
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// add creates the connection to one more scheduler.
func (c *Client) add(address string) error {
	s := &server{address: address}
	if len(c.servers) > 0 && !s.local() && c.servers[0].local() && !c.proves() {
		return &Error{Code: messages.Code_CODE_NOT_ALLOWED,
			Text: "scheduler socket " + address + " exists only on the scheduler's host",
			Hint: "run the command on that host, or use its network address with a certificate or token"}
	}
	var more []grpc.DialOption
	if s.local() {
		more = append(more, grpc.WithAuthority("localhost")) // a path is not a valid authority
	}
	// A custom dialer keeps the cause of a failed connection. passthrough leaves name resolution to this
	// dialer. The pause before the next connection attempt is short, because a user may be waiting.
	conn, err := grpc.NewClient("passthrough:///"+address, append(more,
		grpc.WithTransportCredentials(c.credentials(s)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if err := c.freshen(ctx, s); err != nil {
				return nil, err
			}
			return s.dial(ctx, address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(api.MaxReplyBytes)),
	)...)
	if err != nil {
		return &Error{Code: messages.Code_CODE_INVALID, Text: err.Error()}
	}
	s.conn = conn
	c.servers = append(c.servers, s)
	return nil
}

func (c *Client) find(address string) int {
	return slices.IndexFunc(c.servers, func(s *server) bool { return s.address == address })
}

// Close closes the connections and ends every call on them.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.conn.Close()
	}
}

// Name returns the owner of jobs that this client submits. For a token, only the scheduler knows this name.
func (c *Client) Name(ctx context.Context) (string, error) {
	switch {
	case c.badge != nil:
		return c.badge.Identity().Name, nil
	case c.bearer != nil, c.next().local():
		who, err := c.WhoAmI(ctx, &api.WhoAmI{})
		return who.GetName(), err
	}
	return messages.Anonymous, nil
}

// Root returns the cluster ID and root certificate digest that a scheduler must prove. ok reports whether
// they are known.
func (c *Client) Root() (cluster string, root [sha256.Size]byte, ok bool) {
	switch {
	case c.badge != nil && !c.badge.External():
		return c.badge.Identity().Cluster, c.badge.Root(), true
	case c.bearer != nil:
		return c.bearer.Cluster(), c.bearer.Root(), true
	}
	return "", root, false
}

// Server returns the address of the scheduler for the next call.
func (c *Client) Server() string { return c.next().address }

// freshen gets the token for the next connection from Config.Fresh.
func (c *Client) freshen(ctx context.Context, s *server) (err error) {
	if c.config.Fresh == nil || c.bearer == nil || s.local() {
		return nil
	}
	text, until, err := c.config.Fresh(ctx)
	if err == nil {
		err = c.bearer.Renew(text)
	}
	if err != nil {
		s.stale.Store(&err)
		c.until.Store(nil)
		return err
	}
	s.stale.Store(nil)
	c.until.Store(&until)
	return nil
}

// expired reports whether the last sent token has expired. A scheduler closes the connection of an expired
// token. The scheduler is then not lost, and the next connection sends a new token.
func (c *Client) expired() bool {
	until := c.until.Load()
	return until != nil && !time.Now().Before(*until)
}

func (s *server) dial(ctx context.Context, address string) (net.Conn, error) {
	var conn net.Conn
	var err error
	if path, ok := strings.CutPrefix(address, unixsocket.Scheme); ok {
		conn, err = unixsocket.Dial(ctx, path)
	} else {
		conn, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	}
	s.dialed.Store(&err)
	return conn, err
}

// local reports whether the server is a local socket, which needs no credentials.
func (s *server) local() bool { return strings.HasPrefix(s.address, unixsocket.Scheme) }

// proves reports whether the client has credentials for a remote scheduler.
func (c *Client) proves() bool { return c.badge != nil || c.bearer != nil || c.secure != nil }

// prove reads the client's credentials and the roots that it trusts.
func (c *Client) prove() (err error) {
	files := c.config.CA != "" || c.config.Cert != "" || c.config.Key != ""
	switch {
	case c.config.Token != "" && (c.config.TLS != "" || files):
		return &Error{Code: messages.Code_CODE_INVALID, Text: "a token cannot be combined with tls, ca, cert or key",
			Hint: "omit them: the token also verifies the scheduler"}
	case c.config.Token != "":
		if c.bearer, err = credential.ReadBearer(c.config.Token); err != nil {
			return &Error{Code: messages.Code_CODE_INVALID, Text: err.Error(),
				Hint: "use --token-file, SYNAPSE_TOKEN or `synapse-cli login`"}
		}
	case c.config.TLS != "" && files:
		return &Error{Code: messages.Code_CODE_INVALID, Text: "tls cannot be combined with ca, cert or key",
			Hint: "use a folder created by `synapse-cli init`, which has all three"}
	case c.config.TLS != "":
		if c.badge, err = credential.OpenBadge(c.config.TLS, identity.People...); err != nil {
			return &Error{Code: messages.Code_CODE_INVALID, Text: "tls: " + err.Error(),
				Hint: "use a folder with ca.pem, cert.pem and key.pem, or the file that lists the files of an " +
					"outside issuer"}
		}
	case files:
		if c.secure, err = c.config.credentials(); err != nil {
			return &Error{Code: messages.Code_CODE_INVALID, Text: err.Error(),
				Hint: "use the names of PEM files for ca, cert and key"}
		}
	}
	return nil
}

// credentials returns the credentials for connections to one server. They record whether the server refused
// them.
func (c *Client) credentials(s *server) credentials.TransportCredentials {
	told := func(r *credential.Refused) { s.refused.Store(r) }
	switch {
	case s.local():
		return credential.Beside(told)
	case c.badge != nil:
		return c.badge.Credentials(told)
	case c.bearer != nil:
		return c.bearer.Credentials(told)
	case c.secure != nil:
		return c.secure
	}
	return credential.Plain(told)
}

func (c *Config) credentials() (credentials.TransportCredentials, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if c.CA != "" {
		pool, err := identity.ReadPool(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = pool
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("cert and key must be set together")
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// Lost reports whether a retry may help: the scheduler is unreachable, or another scheduler is taking over.
func Lost(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == messages.Code_CODE_UNAVAILABLE
}
