package authn

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"crypto/x509"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file renews certificates: one connection with one request and one answer. The ALPN protocol of the handshake
// selects it. A node with an expired certificate can make only this request.

// errServed ends a connection that gRPC does not get.
var errServed = errors.New("certificate request was served")

// renew serves one renewal.
func (g *Authenticator) renew(conn *tls.Conn, p identity.Peer) error {
	request, err := credential.ReadFrame(conn)
	if err != nil {
		return err
	}
	if wait := g.purses.renews(p.Identity.String(), g.o.Now()); wait > 0 {
		err = fmt.Errorf("certificate was renewed %d times: try again in %s", renewalBurst, wait.Round(time.Second))
		return g.refuse(conn, err, "Refused to renew the certificate of %s from %s: more than one request "+
			"per minute",
			p, hostOf(conn))
	}
	var chain []*x509.Certificate
	if err = g.replaced(p); err == nil {
		chain, err = g.authority.Renew(p, request, g.o.Now())
	}
	if err == nil {
		err = g.certified(conn, p.Identity, credential.Until(chain[0]))
	}
	if err != nil {
		return g.refuse(conn, err, "Refused to renew the certificate of %s from %s: %v", p, hostOf(conn), err)
	}
	g.o.Count(countRenewed, 1)
	g.mu.Lock()
	g.renewed[holder{p.Identity, p.Key}] = chain[0].NotAfter
	g.mu.Unlock()
	g.o.Log("Renewed the certificate of %s from %s, valid until %s", p, hostOf(conn), credential.Until(chain[0]))
	return g.answer(conn, chain)
}

// refuse sends the reason for a refusal, and logs it.
func (g *Authenticator) refuse(conn *tls.Conn, why error, line string, args ...any) error {
	g.o.Count(countRefused, 1)
	g.say(line, args...)
	g.noteStranger(conn, conn.ConnectionState().NegotiatedProtocol, why.Error())
	text := append([]byte{credential.AnswerRefused}, why.Error()...)
	return errors.Join(credential.WriteFrame(conn, text), conn.CloseWrite())
}

// answer sends the signed certificates.
func (g *Authenticator) answer(conn *tls.Conn, chain []*x509.Certificate) error {
	if e, ok := conn.NetConn().(credential.Entrant); ok { // the peer is now authenticated
		e.Entered()
	}
	text := []byte{credential.AnswerGood}
	for _, c := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return errors.Join(credential.WriteFrame(conn, text), conn.CloseWrite())
}
