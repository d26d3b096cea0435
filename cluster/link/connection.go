package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/link/envelope"
)

// This file owns connections below the streams: which are accepted, how a silent peer is detected, and how much is read
// ahead.

// maxStreams limits the simultaneous calls on one connection.
const maxStreams = 128

// ServerOptions returns the options that a grpc.Server needs for the link, in addition to those of its owner. With
// credentials for mutual TLS, a node's certificate proves its name. With nil credentials, the connection is plaintext.
func ServerOptions(creds credentials.TransportCredentials) []grpc.ServerOption {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return []grpc.ServerOption{
		envelope.ServerOption(),
		grpc.Creds(prefaceCheck{creds}),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, MaxConnectionIdle: idleTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxFrameBytes),
		grpc.MaxSendMsgSize(maxFrameBytes),
		grpc.MaxHeaderListSize(16 << 10),
		// Most links are idle most of the time, so their buffers are small.
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
	}
}

const readBuffer = 4 << 10

// window is how much a peer may send before it is read. It does not grow. With a growing window, a flooding peer could
// send megabytes. gRPC would also measure every burst with pings, which are every second packet of a link with small
// messages.
const window = 256 << 10

// dialOptions returns the options of a node's connection. Accepted is set when the connection is accepted.
func dialOptions(o *Options, accepted *atomic.Bool) []grpc.DialOption {
	creds := o.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	// Client.keep creates a ClientConn for each attempt and waits in between, so gRPC's own retries are set to be rare.
	params := grpc.ConnectParams{
		MinConnectTimeout: answerTimeout, Backoff: backoff.Config{BaseDelay: maxRetry, MaxDelay: maxRetry},
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		conn, err := o.Dialer(ctx, address)
		accepted.Store(err == nil)
		return conn, err
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(dial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrameBytes), grpc.MaxCallSendMsgSize(maxFrameBytes)),
		grpc.WithConnectParams(params),
		grpc.WithMaxHeaderListSize(16 << 10),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithUserAgent("synapse-link"),
	}
}

// prefaceCheck accepts a connection after it has sent the HTTP/2 preface. Until then, the connection costs a socket and
// a goroutine. gRPC would allocate its buffers and tables first, which costs half as much again.
type prefaceCheck struct {
	credentials.TransportCredentials
}

// firstWords is the preface of every HTTP/2 connection.
const firstWords = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

var errNotHTTP2 = errors.New("the connection does not speak HTTP/2")

// ServerHandshake waits for the preface, within gRPC's connection timeout.
func (d prefaceCheck) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	entering := &opened{Conn: conn}
	if _, err := io.ReadFull(conn, entering.words[:]); err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(entering.words[:], []byte(firstWords)) {
		return nil, nil, errNotHTTP2
	}
	if e, ok := raw.(credential.Entrant); ok {
		e.Entered()
	}
	return entering, info, nil
}

// Clone keeps the check of the preface.
func (d prefaceCheck) Clone() credentials.TransportCredentials {
	return prefaceCheck{d.TransportCredentials.Clone()}
}

// opened is a connection whose preface has been read. It returns the preface to gRPC again.
type opened struct {
	net.Conn
	words [len(firstWords)]byte
	read  int
}

func (c *opened) Read(b []byte) (int, error) {
	if c.read < len(c.words) {
		n := copy(b, c.words[c.read:])
		c.read += n
		return n, nil
	}
	return c.Conn.Read(b)
}
