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

// This file owns what a person shows who has no certificate: a pass, of which the scheduler's store has a hash, or the
// token of an issuer of OpenID Connect. Each is said once for each connection, behind the handshake in which the
// scheduler proves itself by the root that the text names, and before anything else.

// What is known of these texts at both ends.
const (
	ProtocolPass   = "synapse-token/1"
	ProtocolIssued = "synapse-oidc/1"
	PassPrefix     = "synapselogin1"
	IssuedPrefix   = "synapseoidc1"

	maxIssued = MaxFrame // bounds an issuer's token: it travels as one frame
)

var (
	// ErrToken is why no pass is read.
	ErrToken = errors.New("the token cannot be read: it is one word that begins with " + PassPrefix +
		", as `synapse-cli token create --user NAME` prints it")
	// ErrLater is why nobody is let in by a token that may be good.
	ErrLater      = errors.New("the scheduler cannot look the token up now")
	errIssuedText = errors.New("the token cannot be read: it must be one that an issuer signed, three parts with dots " +
		"between them, behind the root of the cluster")
)

// NewPass makes the text of a token, for the cluster of this root, and the hash by which a scheduler knows it.
func NewPass(cluster string, root [sha256.Size]byte) (text string, hash []byte, err error) {
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(secret)
	return fmt.Sprintf("%s.%s.%x.%x", PassPrefix, cluster, root, secret), sum[:], nil
}

// Bearer is the dialling end of a person with a token.
type Bearer struct {
	ticket
	protocol string
	newer    atomic.Pointer[[]byte] // the secret to say from now on; nil: the ticket's
}

// ReadBearer reads the text of a person's token, or what WithRoot made of an issuer's. Its errors have nothing of the
// text in them.
func ReadBearer(text string) (*Bearer, error) {
	if strings.HasPrefix(strings.TrimSpace(text), IssuedPrefix+".") {
		return readIssued(text)
	}
	if strings.HasPrefix(strings.TrimSpace(text), InvitationPrefix+".") {
		return nil, errors.New("this is a token with which a machine joins, not a person's")
	}
	t, err := readText(text, PassPrefix)
	if err != nil {
		return nil, ErrToken
	}
	return &Bearer{ticket: t, protocol: ProtocolPass}, nil
}

// ReadPass returns the secret in a person's token, and takes no issuer's.
func ReadPass(text string) ([]byte, error) {
	t, err := readText(text, PassPrefix)
	if err != nil {
		return nil, ErrToken
	}
	return t.secret, nil
}

// Renew has connections show another token from now on: of the same cluster, and of the same kind.
func (b *Bearer) Renew(text string) error {
	next, err := ReadBearer(text)
	switch {
	case err != nil:
		return err
	case next.protocol != b.protocol || next.cluster != b.cluster || next.root != b.root:
		return errors.New("the new token is for another cluster")
	}
	b.newer.Store(&next.secret)
	return nil
}

// Secret returns what it says of itself.
func (b *Bearer) Secret() []byte {
	if newer := b.newer.Load(); newer != nil {
		return *newer
	}
	return b.secret
}

// Issued is the token of an issuer that the text has; ok: it is such a one.
func (b *Bearer) Issued() (token string, ok bool) {
	return string(b.Secret()), b.protocol == ProtocolIssued
}

// Cluster is the name of the token's cluster, and Root the digest of its root.
func (b *Bearer) Cluster() string { return b.cluster }

// Root is the digest of the certificate of the cluster's root.
func (b *Bearer) Root() [sha256.Size]byte { return b.root }

// Root is the digest of the certificate of the cluster's root, for a token that is to be made. An outside issuer's
// badge has none.
func (b *Badge) Root() [sha256.Size]byte { return sha256.Sum256(b.Folder.Roots[0].Raw) }

// Credentials are for gRPC's connections. Told, if any, learns of each connection whether it was refused.
func (b *Bearer) Credentials(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), dial: b.dial, told: told}
}

// dial proves the scheduler, says the secret, and hears whether it is good.
func (b *Bearer) dial(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, err := b.prove(ctx, raw, b.protocol, nil)
	if err == nil && conn.ConnectionState().NegotiatedProtocol != b.protocol {
		err = &Refused{errors.New("what listens there takes no such tokens: it is an earlier version")}
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
	return nil, nil, &Refused{fmt.Errorf("the scheduler refused the token: %.500s", bytes.TrimLeft(answer, "\x01"))}
}

// prove makes a handshake with a scheduler of which nothing is known but the digest of its root. Found, if any, is told
// that root.
func (t ticket) prove(
	ctx context.Context, raw net.Conn, protocol string, found func(*x509.Certificate),
) (*tls.Conn, error) {
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
		InsecureSkipVerify: true, // VerifyConnection verifies, by the token's root
		VerifyConnection: func(s tls.ConnectionState) error {
			root := t.finds(s.PeerCertificates)
			if root == nil {
				return identity.ErrUnknown
			}
			if found != nil {
				found(root)
			}
			trust := identity.Trust{Cluster: t.cluster, Roots: []*x509.Certificate{root}, Now: t.Now}
			return trust.Scheduler(s.PeerCertificates)
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		if r := ours(err); r != nil {
			return nil, r
		}
		return nil, err
	}
	return conn, nil
}

// WithRoot is the text of an issuer's token for a cluster, which is known by the digest of its root. As the text of a
// pass it proves the scheduler before anything is told to it.
func WithRoot(cluster string, root [sha256.Size]byte, token string) string {
	return fmt.Sprintf("%s.%s.%x.%s", IssuedPrefix, cluster, root, strings.TrimSpace(token))
}

// unwritable tells of a letter that no token has: what trims words would take it for an end.
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
