package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns the renewal of certificates: a separate type of connection, identified by its protocol name in the TLS
// handshake, with one request and one answer. It also owns the frames of both.

// These constants of a renewal are known at both ends.
const (
	ProtocolRenewal = "synapse-renewal/1"
	MaxFrame        = 16 << 10
	// LapsedFor is how long after its certificate's end a node may still renew it. Its tasks have continued in that time.
	LapsedFor = 30 * 24 * time.Hour

	renewalTimeout = 5 * time.Second
	renewalPause   = time.Minute // between checks of the clock, and between attempts
)

// These are the values of the first byte of an answer.
const (
	AnswerGood    = 0
	AnswerRefused = 1
	AnswerLater   = 2 // the check failed for now: the client may retry
)

// Until returns a certificate's end as text.
func Until(c *x509.Certificate) string { return c.NotAfter.UTC().Format(time.RFC3339) }

// Keep renews the badge after two thirds of its lifetime, until the context ends. For an outside issuer, it reads the
// files again. It asks every scheduler, because each knows the expiry of its own connections.
func (b *Badge) Keep(ctx context.Context, schedulers []string, log func(format string, args ...any)) {
	if b.external != nil {
		b.keepExternal(ctx, log)
		return
	}
	said := ""
	for {
		if leaf := b.pair.Load().Leaf(); !b.now().Before(identity.RenewAt(leaf)) {
			err := b.Renew(ctx, schedulers)
			switch {
			case err == nil:
				log("The certificate of this node was renewed and is valid until "+
					"%s", Until(b.pair.Load().Leaf()))
				said = ""
			case ctx.Err() == nil && err.Error() != said:
				said = err.Error()
				log("The certificate of this node is valid until %s and cannot be renewed: %v; "+
					"retrying", Until(leaf), err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewalPause):
		}
	}
}

// Renew asks all schedulers, and succeeds if one of them renews. The last certificate is kept.
func (b *Badge) Renew(ctx context.Context, schedulers []string) error {
	var failed error
	renewed := false
	for _, at := range schedulers {
		chain, err := b.renewOnce(ctx, at)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("the scheduler at %s: %w", at, err))
			continue
		}
		if err := b.take(chain); err != nil {
			return err
		}
		renewed = true
	}
	if renewed {
		return nil
	}
	return failed
}

// take makes a chain the badge's chain. It writes the chain to disk first, so that a restarted agent finds it.
func (b *Badge) take(chain []*x509.Certificate) error {
	next := *b.Folder
	next.Pair = &identity.Pair{Key: b.pair.Load().Key, Chain: chain}
	who, err := next.Identity()
	if err != nil || who != b.own || !next.Pair.Belongs() {
		return errors.Join(errors.New("scheduler signed a certificate that was not requested"), err)
	}
	if err := next.SaveChain(); err != nil {
		return err
	}
	b.pair.Store(next.Pair)
	return nil
}

// ask connects to a scheduler, verifies it, sends one request, and returns the signed chain.
func ask(ctx context.Context, at string, prove func(context.Context, net.Conn) (*tls.Conn, error),
	say func() ([]byte, error)) (
	[]*x509.Certificate, error,
) {
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	conn, err := prove(ctx, raw)
	if err != nil {
		return nil, err
	}
	text, err := say()
	if err != nil {
		return nil, err
	}
	if err := WriteFrame(conn, text); err != nil {
		return nil, err
	}
	return hearAnswer(conn)
}

func (b *Badge) renewOnce(ctx context.Context, at string) ([]*x509.Certificate, error) {
	return ask(ctx, at, func(ctx context.Context, raw net.Conn) (*tls.Conn, error) {
		conn, _, err := b.dial(ctx, raw, ProtocolRenewal)
		if err == nil && conn.ConnectionState().NegotiatedProtocol != ProtocolRenewal {
			err = errors.New("server does not renew certificates")
		}
		return conn, err
	}, func() ([]byte, error) { return identity.Request(b.pair.Load().Key) })
}

// hearAnswer waits for the signed chain or the refusal.
func hearAnswer(conn *tls.Conn) ([]*x509.Certificate, error) {
	answer, err := ReadFrame(conn)
	if r := remote(err); r != nil {
		return nil, r
	}
	if err != nil {
		return nil, err
	}
	return readAnswer(answer)
}

// readAnswer parses an answer into a chain or an error.
func readAnswer(answer []byte) (chain []*x509.Certificate, err error) {
	if len(answer) == 0 {
		return nil, errors.New("answer is empty")
	}
	if answer[0] != AnswerGood {
		return nil, &Refused{fmt.Errorf("refused: %.500q", answer[1:])}
	}
	for block, rest := pem.Decode(answer[1:]); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("answer contains no certificate")
	}
	return chain, nil
}

// WriteFrame writes a frame: its length in four bytes, and its content.
func WriteFrame(to io.Writer, data []byte) error {
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

// ReadFrame reads a frame of at most MaxFrame bytes.
func ReadFrame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxFrame {
		return nil, fmt.Errorf("frame has %d bytes: at most %d are allowed", n, MaxFrame)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(from, data)
	return data, err
}
