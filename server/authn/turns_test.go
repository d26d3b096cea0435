package authn

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// TestTurns: whoever waits for a client has no turn, whoever goes on takes one, and a handshake that is over needs
// none.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newTurns(nil)
		one.places = make(chan struct{}, 1)
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := &takesTurns{Conn: ours, turns: one}
		c.take()
		got := 0
		read := func() { got += must(c.Read(make([]byte, 1))) }
		go read()
		synctest.Wait()
		one.places <- struct{}{} // it waits for the client, so the turn is free
		_ = must(theirs.Write([]byte("x")))
		if synctest.Wait(); got != 0 {
			t.Error("it goes on while another has the only turn")
		}
		<-one.places
		if synctest.Wait(); got != 1 || len(one.places) != 1 {
			t.Errorf("it read %d bytes, and %d have a turn", got, len(one.places))
		}
		if c.end(); len(one.places) != 0 {
			t.Error("who is through keeps the turn")
		}
		one.places <- struct{}{}
		go read()
		_ = must(theirs.Write([]byte("y")))
		if synctest.Wait(); got != 2 {
			t.Error("who is through waits for a turn")
		}
		<-one.places
	})
}

// TestUnderWayOnceHeard: a handshake whose client has said nothing, as one that stands in line, makes no crowd of the
// others.
func TestUnderWayOnceHeard(t *testing.T) {
	at := newTurns(nil)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := &takesTurns{Conn: ours, turns: at}
	c.take()
	before := at.under.Load()
	go theirs.Write([]byte("xy"))
	for range 2 {
		_ = must(c.Read(make([]byte, 1)))
	}
	within := at.under.Load()
	if c.end(); before != 0 || within != 1 || at.under.Load() != 0 {
		t.Errorf("%d were under way before it was heard, then %d, and %d at its end", before, within, at.under.Load())
	}
}

// TestCrowdGivesWay: in a crowd a handshake goes on as soon as no call is served, or after a while; where there are few
// it waits for no call.
func TestCrowdGivesWay(t *testing.T) {
	for name, of := range map[string]struct {
		under int32
		calls time.Duration // for how long there is one
		want  time.Duration
	}{
		"few":                 {crowd, time.Second, 0},
		"quiet":               {crowd + 1, 0, 0},
		"a call":              {crowd + 1, givesWay / 10, givesWay / 10},
		"a call that is long": {crowd + 1, time.Second, givesWay},
	} {
		synctest.Test(t, func(t *testing.T) {
			served := make(chan struct{})
			at := newTurns(func() <-chan struct{} {
				select {
				case <-served:
					return nil
				default:
					return served
				}
			})
			if of.calls == 0 {
				close(served)
			} else {
				time.AfterFunc(of.calls, func() { close(served) })
			}
			at.under.Store(of.under)
			c, began := &takesTurns{turns: at}, time.Now()
			for range 3 { // what it waits is counted over all of its turns
				c.take()
				c.give()
			}
			if took := time.Since(began); took != of.want || len(at.places) != 0 {
				t.Errorf("%s: it gives way for %s, want %s; %d have a turn", name, took, of.want, len(at.places))
			}
			time.Sleep(time.Second)
		})
	}
}

// TestSlowOnesHaveNoTurn: clients that stop in the middle of a handshake hold up nobody, however many they are.
func TestSlowOnesHaveNoTurn(t *testing.T) {
	s := newRig(t)
	for range 4 * cap(s.gate.turns.places) {
		raw := must(net.Dial("tcp", s.address))
		defer raw.Close()
		_ = must(raw.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))) // and no more of its first words
		half := must(net.Dial("tcp", s.address))
		defer half.Close()
		halted := make(chan struct{})
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{credential.ProtocolHTTP2},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				close(halted)
				<-t.Context().Done() // it never shows one
				return nil, t.Context().Err()
			}}
		go func() { _ = tls.Client(half, config).HandshakeContext(t.Context()) }()
		<-halted
	}
	if _, ask := s.open(s.badge(s.by, identity.RoleNode, "n1").Credentials(nil)); ask() != nil {
		t.Error("an honest one is held up")
	}
	// Who has just spoken has a turn for a moment; one that kept it would have it for good.
	for limit := testpace.Until(20 * time.Second); len(s.gate.turns.places) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d of them have a turn", len(s.gate.turns.places))
		}
	}
}
