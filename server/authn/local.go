package authn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file authenticates users on the scheduler's host through its unix socket. root and the scheduler's own user
// are admins there, because both could read its keys anyway. The kernel reports the user, so no credentials or
// encryption are needed. The scheduler first sends whether it admits the user, or the reason for a refusal. Then
// gRPC or HTTP follows; the first bytes show which.

// local admits or refuses a peer on the socket.
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
	entered, err := g.enters(c, c, p, true)
	if err != nil {
		return nil, nil, turnedAway(c, err)
	}
	g.o.Count(countAdmitted, 1)
	if err := credential.WriteFrame(c, []byte{credential.AnswerGood}); err != nil {
		return nil, nil, errors.Join(err, entered.Close())
	}
	again, visits, err := httpmux.Told(c)
	if err != nil {
		return nil, nil, errors.Join(err, entered.Close())
	}
	entered.Conn = again
	if visits {
		entered.visits()
		return entered, Visitor{Proof: proved(p), from: c.Who.String()}, nil
	}
	return entered, proved(p), nil
}

// turnedAway sends the reason for a refusal.
func turnedAway(c net.Conn, why error) error {
	return errors.Join(why, credential.WriteFrame(c, append([]byte{credential.AnswerRefused}, why.Error()...)), c.Close())
}

// here returns the peer on the socket.
func (g *Authenticator) here(c *unixsocket.Conn) (identity.Peer, error) {
	own := uint32(os.Geteuid())
	if c.Who.UID != 0 && c.Who.UID != own {
		return identity.Peer{}, fmt.Errorf("process of uid %d is refused: the local socket accepts only root and uid "+
			"%d, the scheduler's user; use a certificate or a token", c.Who.UID, own)
	}
	if c.Refused != nil {
		return identity.Peer{}, fmt.Errorf("process of uid %d is refused: %w", c.Who.UID, c.Refused)
	}
	return g.trust.Here(identity.Identity{Cluster: g.own.Cluster, Role: identity.RoleAdmin, Name: userName(c.Who.UID)})
}

// userName returns the name of a user of this host, if the name is valid in a cluster.
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
