package authn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file supports schedulers whose certificates an outside issuer signs. Such a scheduler signs nothing, so
// nodes cannot join or renew through it. It reads the issuer's files again when they change.

// errExternal is the error for requests that only a cluster with its own authority can serve: a join, a renewal,
// and a token that names the cluster's root.
var errExternal = errors.New("cluster uses the certificates of an outside issuer: joins, renewals and tokens are not " +
	"supported; use a certificate of that issuer (docs/operate/spiffe.md)")

// ownAlone lists the protocols of a cluster with its own authorities.
var ownAlone = append([]string{credential.ProtocolRenewal}, bareProtocols...)

// refuseOwn refuses these protocols if an outside issuer signs.
func (g *Authenticator) refuseOwn(protocols []string) error {
	if g.o.External != nil && slices.ContainsFunc(protocols, func(p string) bool { return slices.Contains(ownAlone, p) }) {
		return errExternal
	}
	return nil
}

// learn reads the scheduler's identity and the roots that it trusts.
func (g *Authenticator) learn() error {
	if x := g.o.External; x != nil {
		if g.own = x.Identity(); g.own.Role != identity.RoleScheduler {
			return fmt.Errorf("cert is for %s: a scheduler needs one of role %s", g.own, identity.RoleScheduler)
		}
		g.trust = x.Trust()
		return g.believe(x.Denylist())
	}
	by, err := g.o.Folder.Identity()
	if err != nil {
		return fmt.Errorf("%s: %w", g.o.Folder.Dir, err)
	}
	if by.Role != identity.RoleAuthority {
		return fmt.Errorf("%s belongs to %s: a scheduler needs the folder of an authority", g.o.Folder.Dir, by)
	}
	g.authority = g.o.Folder.Pair
	g.own = identity.Identity{Cluster: by.Cluster, Role: identity.RoleScheduler, Name: by.Name}
	if g.trust, err = g.o.Folder.Trust(); err != nil {
		return err
	}
	return g.believe(g.o.Folder.Denylist())
}

func (g *Authenticator) believe(denied *identity.Denylist, err error) error {
	g.trust.Now, g.trust.Denied = g.o.Now, denied
	return err
}

// refreshOwn reads the issuer's new files.
func (g *Authenticator) refreshOwn() error {
	changed, err := g.o.External.Refresh()
	g.pair.Store(g.o.External.Pair())
	if changed {
		g.o.Log("This scheduler uses a new certificate, valid until %s", credential.Until(g.pair.Load().Leaf()))
	}
	return err
}
