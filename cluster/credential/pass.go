package credential

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// This file owns the tokens of users without a certificate: a pass, whose hash is in the scheduler's store, or the
// token of an OpenID Connect issuer. The client sends the token once per connection. Before that, the scheduler proves
// its identity in the handshake by the root certificate that the token's text names.

// These constants of tokens are known at both ends.
const (
	ProtocolPass   = "synapse-token/1"
	ProtocolIssued = "synapse-oidc/1"
	PassPrefix     = "synapselogin1"
	IssuedPrefix   = "synapseoidc1"

	maxIssued = MaxFrame // maximum size of an issuer's token, which is sent as one frame
)

var (
	// ErrToken means that a text is not a user's token.
	ErrToken = errors.New("token is malformed: use the word that begins with " + PassPrefix +
		", as `synapse-cli token create --user NAME` prints it")
	// ErrLater means that the scheduler cannot check a token at the moment.
	ErrLater      = errors.New("scheduler cannot check the token now: try again later")
	errIssuedText = errors.New("token is malformed: an issuer's token has three parts separated by dots, after the " +
		"root of the cluster")
)

// NewPass generates the text of a token for the cluster with this root. It also returns the hash by which a scheduler
// recognizes the token.
func NewPass(cluster string, root [sha256.Size]byte) (text string, hash []byte, err error) {
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(secret)
	return fmt.Sprintf("%s.%s.%x.%x", PassPrefix, cluster, root, secret), sum[:], nil
}

// Bearer holds the credentials of a user with a token.
type Bearer struct {
	ticket
	protocol string
	newer    atomic.Pointer[[]byte] // the renewed secret; nil: the ticket's
}

// ReadBearer parses the text of a user's token, or the result of WithRoot. Its errors contain no part of the text.
func ReadBearer(text string) (*Bearer, error) {
	if strings.HasPrefix(strings.TrimSpace(text), IssuedPrefix+".") {
		return readIssued(text)
	}
	if strings.HasPrefix(strings.TrimSpace(text), InvitationPrefix+".") {
		return nil, errors.New("token is a join token: users need a user's token")
	}
	t, err := readText(text, PassPrefix)
	if err != nil {
		return nil, ErrToken
	}
	return &Bearer{ticket: t, protocol: ProtocolPass}, nil
}

// ReadPass returns the secret in a user's pass. It refuses an issuer's token.
func ReadPass(text string) ([]byte, error) {
	t, err := readText(text, PassPrefix)
	if err != nil {
		return nil, ErrToken
	}
	return t.secret, nil
}

// Renew replaces the token for later connections. The new token must be of the same cluster and of the same kind.
func (b *Bearer) Renew(text string) error {
	next, err := ReadBearer(text)
	switch {
	case err != nil:
		return err
	case next.protocol != b.protocol || next.cluster != b.cluster || next.root != b.root:
		return errors.New("new token is for another cluster")
	}
	b.newer.Store(&next.secret)
	return nil
}

// Secret returns the secret that the client sends.
func (b *Bearer) Secret() []byte {
	if newer := b.newer.Load(); newer != nil {
		return *newer
	}
	return b.secret
}

// Issued returns the issuer's token in the text. It reports false for a pass.
func (b *Bearer) Issued() (token string, ok bool) {
	return string(b.Secret()), b.protocol == ProtocolIssued
}

// Cluster returns the name of the token's cluster.
func (b *Bearer) Cluster() string { return b.cluster }

// Root returns the digest of the cluster's root certificate.
func (b *Bearer) Root() [sha256.Size]byte { return b.root }

// Root returns the digest of the cluster's root certificate for a new token. A badge of an outside issuer has none.
func (b *Badge) Root() [sha256.Size]byte { return sha256.Sum256(b.Folder.Roots[0].Raw) }

// Credentials returns the credentials for gRPC connections. The function told, if set, receives the result of each
// connection: the refusal, or nil.
func (b *Bearer) Credentials(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), dial: b.dial, told: told}
}

// dial verifies the scheduler, sends the secret, and waits for the result.
func (b *Bearer) dial(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, err := b.prove(ctx, raw, b.protocol, nil)
	if err == nil && conn.ConnectionState().NegotiatedProtocol != b.protocol {
		err = &Refused{errors.New("scheduler is too old for this kind of token: upgrade it")}
	}
	if err != nil {
		return nil, nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, nil, err
		}
	}
	if err := WriteFrame(conn, b.Secret()); err != nil {
		return nil, nil, err
	}
	answer, err := ReadFrame(conn)
	switch r := remote(err); {
	case r != nil:
		return nil, nil, r
	case err != nil:
		return nil, nil, err
	case bytes.Equal(answer, []byte{AnswerGood}):
		return conn, proof{private}, conn.SetDeadline(time.Time{})
	case len(answer) > 1 && answer[0] == AnswerLater:
		return nil, nil, fmt.Errorf("%w: %.500s", ErrLater, answer[1:])
	case len(answer) > 0 && answer[0] == AnswerLater:
		return nil, nil, ErrLater
	}
	return nil, nil, &Refused{fmt.Errorf("scheduler refused the token: %.500s", bytes.TrimLeft(answer, "\x01"))}
}

// prove performs a handshake with a scheduler of which only the digest of the root certificate is known. The function
// found, if set, receives the root certificate.
func (t ticket) prove(
	ctx context.Context, raw net.Conn, protocol string, found func(*x509.Certificate),
) (*tls.Conn, error) {
	config := identity.PinnedConfig(t.cluster, t.root, t.Now, found)
	config.NextProtos = []string{protocol}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if r := ours(err); r != nil {
			return nil, r
		}
		return nil, err
	}
	return conn, nil
}

// WithRoot combines an issuer's token with the name of a cluster and the digest of its root. With the result, a client
// verifies the scheduler before it sends the token.
func WithRoot(cluster string, root [sha256.Size]byte, token string) string {
	return fmt.Sprintf("%s.%s.%x.%s", IssuedPrefix, cluster, root, strings.TrimSpace(token))
}

// unwritable reports whether a character cannot be in a token, because it is not printable ASCII.
func unwritable(r rune) bool { return r <= ' ' || r > '~' }

func readIssued(text string) (*Bearer, error) {
	parts := strings.SplitN(strings.TrimSpace(text), ".", 4)
	if len(parts) != 4 || identity.CheckCluster(parts[1]) != nil {
		return nil, errIssuedText
	}
	root, err := hex.DecodeString(parts[2])
	token := parts[3]
	if err != nil || len(root) != sha256.Size || strings.Count(token, ".") != 2 || len(token) > maxIssued ||
		strings.ContainsFunc(token, unwritable) {
		return nil, errIssuedText
	}
	t := ticket{cluster: parts[1], root: [sha256.Size]byte(root), secret: []byte(token)}
	return &Bearer{ticket: t, protocol: ProtocolIssued}, nil
}
