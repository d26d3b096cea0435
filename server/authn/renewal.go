package authn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"crypto/x509"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns renewal: a connection of its own, told apart by its protocol's name in the handshake, with one request
// and one answer. A machine whose certificate is over gets here, and to nothing else.

const (
	protocolRenewal = "synapse-renewal/1"
	maxFrame        = 16 << 10
	renewalTimeout  = 5 * time.Second
	renewalPause    = time.Minute // between looks at the clock, and between tries

	answerGood    = 0
	answerRefused = 1
)

// errServed ends a connection that gRPC never gets.
var errServed = errors.New("it asked for a certificate, and is over")

// renew serves one renewal.
func (g *Authenticator) renew(conn *tls.Conn, p identity.Peer) error {
	request, err := readFrame(conn)
	if err != nil {
		return err
	}
	if wait := g.purses.renews(p.Identity.String(), g.o.Now()); wait > 0 {
		err = fmt.Errorf("it has had %d certificates, and may have the next one in %s", renewalBurst, wait.Round(time.Second))
		return g.refuse(conn, err, "Refused to renew the certificate of %s from %s: it asks for more than one a minute",
			p, hostOf(conn))
	}
	var chain []*x509.Certificate
	if err = g.replaced(p); err == nil {
		chain, err = g.authority.Renew(p, request, g.o.Now())
	}
	if err == nil {
		err = g.certified(conn, p.Identity, until(chain[0]))
	}
	if err != nil {
		return g.refuse(conn, err, "Refused to renew the certificate of %s from %s: %v", p, hostOf(conn), err)
	}
	g.o.Count(countRenewed, 1)
	g.mu.Lock()
	g.renewed[holder{p.Identity, p.Key}] = chain[0].NotAfter
	g.mu.Unlock()
	g.o.Log("Renewed the certificate of %s from %s: it is good until %s", p, hostOf(conn), until(chain[0]))
	return g.answer(conn, chain)
}

// refuse answers why, and logs it.
func (g *Authenticator) refuse(conn *tls.Conn, why error, line string, args ...any) error {
	g.o.Count(countRefused, 1)
	g.say(line, args...)
	g.noteStranger(conn, conn.ConnectionState().NegotiatedProtocol, why.Error())
	return errors.Join(writeFrame(conn, append([]byte{answerRefused}, why.Error()...)), conn.CloseWrite())
}

// answer sends what was signed.
func (g *Authenticator) answer(conn *tls.Conn, chain []*x509.Certificate) error {
	served(conn.NetConn())
	text := []byte{answerGood}
	for _, c := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return errors.Join(writeFrame(conn, text), conn.CloseWrite())
}

// until is a certificate's end, for people.
func until(c *x509.Certificate) string { return c.NotAfter.UTC().Format(time.RFC3339) }

// Keep renews the badge when two thirds of its time are over, until the context ends; an outside issuer's it reads
// again. Every scheduler is asked: each knows of its own connections how long they are good.
func (b *Badge) Keep(ctx context.Context, schedulers []string, log func(format string, args ...any)) {
	if b.external != nil {
		b.keepExternal(ctx, log)
		return
	}
	said := ""
	for {
		if leaf := b.pair.Load().Leaf(); !b.now().Before(identity.RenewAt(leaf)) {
			err := b.renewAt(ctx, schedulers)
			switch {
			case err == nil:
				log("The certificate of this machine is renewed: it is good until %s", until(b.pair.Load().Leaf()))
				said = ""
			case ctx.Err() == nil && err.Error() != said:
				said = err.Error()
				log("The certificate of this machine is good until %s, and cannot be renewed: %v; trying again", until(leaf), err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewalPause):
		}
	}
}

// renewAt asks all schedulers, and is content with one. What the last one signed is kept.
func (b *Badge) renewAt(ctx context.Context, schedulers []string) error {
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

// take makes a chain the badge's. It is on disk first: an agent that starts again must find it.
func (b *Badge) take(chain []*x509.Certificate) error {
	next := *b.folder
	next.Pair = &identity.Pair{Key: b.pair.Load().Key, Chain: chain}
	who, err := next.Identity()
	if err != nil || who != b.own || !next.Pair.Belongs() {
		return errors.Join(errors.New("the scheduler signed another certificate than was asked for"), err)
	}
	if err := next.SaveChain(); err != nil {
		return err
	}
	b.pair.Store(next.Pair)
	return nil
}

// ask reaches a scheduler, has it proved, says one thing to it, and answers what it signed for that.
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
	if err := writeFrame(conn, text); err != nil {
		return nil, err
	}
	return hearAnswer(conn)
}

func (b *Badge) renewOnce(ctx context.Context, at string) ([]*x509.Certificate, error) {
	return ask(ctx, at, func(ctx context.Context, raw net.Conn) (*tls.Conn, error) {
		conn, _, err := b.dial(ctx, raw, protocolRenewal)
		if err == nil && conn.ConnectionState().NegotiatedProtocol != protocolRenewal {
			err = errors.New("it renews no certificates")
		}
		return conn, err
	}, func() ([]byte, error) { return identity.Request(b.pair.Load().Key) })
}

// hearAnswer waits for what a scheduler signed, or why it did not.
func hearAnswer(conn *tls.Conn) ([]*x509.Certificate, error) {
	answer, err := readFrame(conn)
	if r := remote(err); r != nil {
		return nil, r
	}
	if err != nil {
		return nil, err
	}
	return readAnswer(answer)
}

// readAnswer is a chain, or why there is none.
func readAnswer(answer []byte) (chain []*x509.Certificate, err error) {
	if len(answer) == 0 {
		return nil, errors.New("its answer is empty")
	}
	if answer[0] != answerGood {
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
		return nil, errors.New("its answer has no certificate")
	}
	return chain, nil
}

// writeFrame sends a frame: its length, in four bytes, and as many bytes.
func writeFrame(to io.Writer, data []byte) error {
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

func readFrame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes: at most %d are taken", n, maxFrame)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(from, data)
	return data, err
}
