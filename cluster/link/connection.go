package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/yi-json/synapse/cluster/link/envelope"
)

// This file owns how connections behave before and beneath the streams: who is
// let in, how a silent peer is noticed, how much of anything is read.

// maxStreams bounds the calls at once on one connection.
const maxStreams = 128

// ServerOptions are what the grpc.Server that carries the link is made with,
// beside its owner's. With credentials for mutual TLS a machine's certificate
// stands behind its name; nil is in the clear.
func ServerOptions(creds credentials.TransportCredentials) []grpc.ServerOption {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return []grpc.ServerOption{
		envelope.ServerOption(),
		grpc.Creds(door{creds}),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, MaxConnectionIdle: idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(frameBytes),
		grpc.MaxSendMsgSize(frameBytes),
		grpc.MaxHeaderListSize(16 << 10),
		// Most links are silent most of the time: what they keep at hand is small.
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
	}
}

const readBuffer = 4 << 10

// window is what a peer may send ahead of our reading it. It does not grow: gRPC
// would measure every burst with pings, which on a link of small messages is
// every second packet, and would let a peer that floods send megabytes ahead.
const window = 256 << 10

func dialOptions(o *Options) []grpc.DialOption {
	creds := o.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	// A ClientConn is made for each try and the waiting is done by who tries, so
	// gRPC's own retries only have to stay out of the way.
	patience := grpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{BaseDelay: retryCap, MaxDelay: retryCap}}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return o.Dialer(ctx, address) }),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(frameBytes), grpc.MaxCallSendMsgSize(frameBytes)),
		grpc.WithConnectParams(patience),
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

// door lets a connection in once it has spoken HTTP/2's first words. Until then
// it costs a socket and a goroutine: gRPC would give each its buffers and tables
// first (about half as much again, measured), however it is configured.
type door struct {
	credentials.TransportCredentials
}

// firstWords open every HTTP/2 connection.
const firstWords = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

var errNotHTTP2 = errors.New("the connection does not speak HTTP/2")

// ServerHandshake has the time that gRPC gives a connection to be made.
func (d door) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
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
	return entering, info, nil
}

// Clone keeps the door.
func (d door) Clone() credentials.TransportCredentials { return door{d.TransportCredentials.Clone()} }

// opened is a connection whose first words have been read, and are read again.
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
