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

// This file owns how a machine joins: a connection of its own kind, as a renewal's, with a request and an answer.
// The machine has no certificate yet and shows none; the scheduler proves itself first, by the root that the token
// names.

// ProtocolJoin names such a connection in its handshake.
const ProtocolJoin = "synapse-join/1"

// Joining is the request. The key stays on the machine, and its public half travels in a request that the key signed.
type Joining struct {
	Secret    []byte `json:"secret"`
	Name      string `json:"name,omitempty"`      // the one that the machine was given
	Otherwise string `json:"otherwise,omitempty"` // the one that it made, where there is no other
	Machine   string `json:"machine,omitempty"`   // its id, which its certificate will say
	Request   []byte `json:"request"`
}

// ReadJoining reads a request, and refuses what a machine would not send.
func ReadJoining(text []byte) (Joining, error) {
	var q Joining
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(&q); err != nil {
		return q, fmt.Errorf("the request cannot be read: %w", err)
	}
	if len(q.Secret) != secretBytes {
		return q, errInvitation
	}
	return q, identity.Bounds{identity.BoundMachine: q.Machine}.Check()
}

// Joiner is the machine that joins.
type Joiner struct {
	Name      string // that it was given; empty: none
	Otherwise string // that it made itself, for where neither it nor its token was given one
	Machine   string // its id
}

// Join makes a machine's key and has it certified by the first scheduler that knows the token. The folder that it
// answers is on no disk yet.
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

// join asks one scheduler. It is proved before the secret leaves.
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

// JoinAgain is Join until some scheduler can be reached: a machine may boot before its scheduler. What a scheduler
// refused is not tried again.
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
