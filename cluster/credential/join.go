package credential

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns the join of a node: a separate type of connection, like a renewal, with one request and one answer.
// The node has no certificate yet and presents none. The scheduler proves its identity first, by the root certificate
// that the token names.

// ProtocolJoin is the protocol name of such a connection in the TLS handshake.
const ProtocolJoin = "synapse-join/1"

// Joining is the request. The private key stays on the node. The public key is in a certificate request that the key
// signed.
type Joining struct {
	Secret    []byte `json:"secret"`
	Name      string `json:"name,omitempty"`      // the one that the machine was given
	Otherwise string `json:"otherwise,omitempty"` // the one that it made, where there is no other
	Machine   string `json:"machine,omitempty"`   // its id, which its certificate will say
	Request   []byte `json:"request"`
}

// ReadJoining parses a request. It refuses requests that no node sends.
func ReadJoining(text []byte) (Joining, error) {
	var q Joining
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(&q); err != nil {
		return q, fmt.Errorf("request is malformed: %w", err)
	}
	if len(q.Secret) != secretBytes {
		return q, errInvitation
	}
	return q, identity.Bounds{identity.BoundMachine: q.Machine}.Check()
}

// Joiner describes the node that joins.
type Joiner struct {
	Name      string // configured name; empty: none
	Otherwise string // generated name, used if neither the node nor its token has one
	Machine   string // its machine ID
}

// Join creates a node's key and gets a certificate from the first scheduler that accepts the token. The returned folder
// is not on disk yet.
func Join(ctx context.Context, token string, schedulers []string, me Joiner) (*identity.Folder, error) {
	t, err := readTicket(token)
	if err != nil {
		return nil, err
	}
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	q := Joining{Secret: t.secret, Name: me.Name, Otherwise: me.Otherwise, Machine: me.Machine}
	if q.Request, err = identity.Request(key); err != nil {
		return nil, err
	}
	var failed error
	for _, at := range schedulers {
		folder, err := t.join(ctx, at, q)
		if err == nil {
			folder.Pair.Key = key
			return folder, nil
		}
		failed = errors.Join(failed, fmt.Errorf("the scheduler at %s: %w", at, err))
	}
	return nil, failed
}

// join asks one scheduler. The scheduler proves its identity before the secret is sent.
func (t ticket) join(ctx context.Context, at string, q Joining) (*identity.Folder, error) {
	folder := &identity.Folder{}
	prove := func(ctx context.Context, raw net.Conn) (*tls.Conn, error) {
		return t.prove(ctx, raw, ProtocolJoin, func(root *x509.Certificate) { folder.Roots = []*x509.Certificate{root} })
	}
	chain, err := ask(ctx, at, prove, func() ([]byte, error) { return json.Marshal(q) })
	if err != nil {
		return nil, err
	}
	folder.Pair = &identity.Pair{Chain: chain}
	return folder, nil
}

// JoinAgain repeats Join until a scheduler can be reached, because a node may boot before its scheduler. A refusal is
// not repeated.
func JoinAgain(
	ctx context.Context, token string, schedulers []string, me Joiner, log func(string, ...any),
) (*identity.Folder, error) {
	for said := ""; ; {
		folder, err := Join(ctx, token, schedulers, me)
		var r *Refused
		if err == nil || errors.As(err, &r) || errors.Is(err, errTicket) {
			return folder, err
		}
		if text := strings.ReplaceAll(err.Error(), "\n", "; "); text != said {
			said = text
			log("Not joined yet: %s; retrying", text)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
