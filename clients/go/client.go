// Package client submits jobs to Synapse from a Go program, and follows them. synapse-cli is made with it.
//
// Dial makes a Client. It has every call of the API (api.SynapseClient), and finds the scheduler that leads. Send
// submits a job. Wait and Follow tell what becomes of it. Logs reads what it writes. ExplainJob tells why it waits.
// Package jobfile reads the YAML that `synapse-cli submit` reads. A call that fails returns an *Error: a line for
// people, a hint, and a code for programs.
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
	// callTimeout bounds a call whose context has no deadline of its own. Streams have none.
	callTimeout = 30 * time.Second
	dialTimeout = 5 * time.Second
)

const (
	// DefaultServer is asked where nothing says which scheduler to ask.
	DefaultServer = "localhost:9000"
	// DefaultRetry is how long a program for people tries again while no scheduler leads.
	DefaultRetry = 10 * time.Second
	// MaxTokenBytes bounds what is read for a token.
	MaxTokenBytes = 16 << 10
)

// Config says where schedulers are, and how to speak to them.
type Config struct {
	Server        string // host:port, or unix:PATH of a scheduler's socket here; several with commas between them
	TLS           string // the folder of a person, or the file of an outside issuer's; empty: what the files say
	Token         string // of a person, as it was printed; with it TLS is empty
	CA, Cert, Key string // files, for a proxy that speaks TLS for the scheduler; none: no TLS
	// Retry is how long a call is tried again that found no scheduler leading.
	Retry time.Duration
	// Waiting, if any, is told once a call when it begins to be tried again.
	Waiting func(error)
	// Fresh answers the token to show with the next connection, and until when that is good; nil: Token is all there is.
	Fresh func(ctx context.Context) (token string, until time.Time, err error)
}

// Client leads to the scheduler that leads, whichever that is. Its calls are those
// of the API (leader.go has how they get there).
type Client struct {
	api.SynapseClient
	config  Config
	badge   *credential.Badge                // nil: secure says how to connect
	bearer  *credential.Bearer               // nil: no token
	secure  credentials.TransportCredentials // nil: plaintext
	reached atomic.Bool                      // some scheduler has answered: it is worth waiting for one
	until   atomic.Pointer[time.Time]        // the token that was shown last is good; nil: nothing is known of that

	mu      sync.Mutex
	servers []*server // as configured, and those that others named behind them
	at      int       // whom to ask next
}

// server is one scheduler's address and the connection to it.
type server struct {
	address string
	conn    *grpc.ClientConn
	dialed  atomic.Pointer[error] // how the last attempt to reach it went
	refused atomic.Pointer[credential.Refused]
	stale   atomic.Pointer[error] // why there was no token to show at the last attempt
}

// Dial makes a client; a server is reached with the first call.
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

// isAddress reports whether a text can be where a scheduler listens.
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

// add makes a connection to one more scheduler.
func (c *Client) add(address string) error {
	s := &server{address: address}
	if len(c.servers) > 0 && !s.local() && c.servers[0].local() && !c.proves() {
		return &Error{Code: messages.Code_CODE_NOT_ALLOWED,
			Text: "scheduler socket " + address + " exists only on the scheduler's host",
			Hint: "run the command on that host, or use its network address with a certificate or token"}
	}
	var more []grpc.DialOption
	if s.local() {
		more = append(more, grpc.WithAuthority("localhost")) // a path is none
	}
	// The dialer is ours so that why it failed is known in its own words, and
	// passthrough, because it resolves names itself. Somebody waits at a terminal, so
	// the pause before the next try to connect is kept short.
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

// Close ends the connections, and every call on them.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.conn.Close()
	}
}

// Name is the owner of what is submitted here. Only the scheduler knows whose a token is.
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

// Root is the cluster that the scheduler must prove itself to be of, and the digest of its root; ok: there is one.
func (c *Client) Root() (cluster string, root [sha256.Size]byte, ok bool) {
	switch {
	case c.badge != nil && !c.badge.External():
		return c.badge.Identity().Cluster, c.badge.Root(), true
	case c.bearer != nil:
		return c.bearer.Cluster(), c.bearer.Root(), true
	}
	return "", root, false
}

// Server is where it leads now.
func (c *Client) Server() string { return c.next().address }

// freshen has the next connection show a token that is good then.
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

// expired reports whether the token is over that was shown last: that a scheduler then closes the connection is no loss
// of that scheduler, and the next connection shows another.
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

// local reports whether the server is a socket on this machine, which needs no proof.
func (s *server) local() bool { return strings.HasPrefix(s.address, unixsocket.Scheme) }

// proves reports whether there is something to show to a scheduler elsewhere.
func (c *Client) proves() bool { return c.badge != nil || c.bearer != nil || c.secure != nil }

// prove reads who we are and whom we believe.
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

// credentials are for the connections to one server, which learns whether it was refused.
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

// Lost reports whether an error may pass if one tries again: the scheduler is not
// there now, or another one is taking over.
func Lost(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == messages.Code_CODE_UNAVAILABLE
}
