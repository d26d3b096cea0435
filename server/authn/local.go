package authn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file owns people on the scheduler's own machine, who come by its socket: root, and the user whom the scheduler
// runs as, are admins there, since both could take its keys anyway. The kernel says who it is, so nothing is shown and
// nothing encrypted. The scheduler says first whether somebody is let in, and if not, why: behind that comes gRPC, or
// HTTP, as the first words tell.

// local lets in, or refuses, whoever has come by the socket.
func (g *Authenticator) local(c *unixsocket.Conn) (net.Conn, credentials.AuthInfo, error) {
	p, err := g.here(c)
	if err != nil {
		g.o.Count(countRefused, 1)
		if g.say("Refused a connection of %s: %v", c.Who, err) {
			g.noteRefusal(audit.Line{
				Who: strangers, From: c.Who.String(), Call: "connect", Outcome: audit.Refused + ": " + err.Error(),
			})
		}
		return nil, nil, turnedAway(c, err)
	}
	entered := g.enters(c, p, true)
	if entered == nil {
		return nil, nil, turnedAway(c, g.crowded(c, p.Identity.String()))
	}
	g.o.Count(countAdmitted, 1)
	if err := writeFrame(c, []byte{answerGood}); err != nil {
		return nil, nil, errors.Join(err, entered.Close())
	}
	again, visits, err := httpmux.Told(c)
	if err != nil {
		return nil, nil, errors.Join(err, entered.Close())
	}
	entered.Conn = again
	if visits {
		g.visits(entered)
		return entered, Visitor{Proof: proved(p), from: c.Who.String()}, nil
	}
	return entered, proved(p), nil
}

// turnedAway says why.
func turnedAway(c net.Conn, why error) error {
	return errors.Join(why, writeFrame(c, append([]byte{answerRefused}, why.Error()...)), c.Close())
}

// here returns who has come by the socket.
func (g *Authenticator) here(c *unixsocket.Conn) (identity.Peer, error) {
	own := uint32(os.Geteuid())
	if c.Who.UID != 0 && c.Who.UID != own {
		return identity.Peer{}, fmt.Errorf("it is of uid %d, and the local socket is for root and for uid %d, whom the "+
			"scheduler runs as: show a certificate or a token", c.Who.UID, own)
	}
	if c.Refused != nil {
		return identity.Peer{}, fmt.Errorf("it is of uid %d, but %w", c.Who.UID, c.Refused)
	}
	return g.trust.Here(identity.Identity{Cluster: g.own.Cluster, Role: identity.RoleAdmin, Name: userName(c.Who.UID)})
}

// userName returns the name of a user of this machine, where that can be somebody's name in a cluster.
func userName(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if of, err := user.LookupId(text); err == nil {
		who := identity.Identity{Cluster: "c", Role: identity.RoleAdmin, Name: of.Username}
		if who.Check() == nil {
			return of.Username
		}
	}
	return "uid-" + text
}

// Beside are the credentials of whoever dials the socket on the scheduler's machine.
func Beside(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), dial: knock, told: told}
}

// knock waits for the scheduler's word.
func knock(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(deadline); err != nil {
			return nil, nil, err
		}
	}
	answer, err := readFrame(raw)
	switch {
	case err != nil:
		return nil, nil, err
	case bytes.Equal(answer, []byte{answerGood}):
		return raw, proved(identity.Peer{}), raw.SetDeadline(time.Time{})
	}
	return nil, nil, &Refused{fmt.Errorf("refused: %.500s", bytes.TrimLeft(answer, "\x01"))}
}
