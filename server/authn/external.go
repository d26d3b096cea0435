package authn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns a scheduler whose certificates an outside issuer signs: nothing is signed here, so nobody joins and
// nothing is renewed over our wire, and the issuer's files are read again when they have changed.

// errExternal is why whoever asks for something that our own authority would sign, or shows a token that names our
// root, is refused.
var errExternal = errors.New("its certificates are an outside issuer's here: nobody joins or renews over this wire, " +
	"and no token counts; it needs a certificate of that issuer (docs/operate/spiffe.md)")

// ownAlone are the protocols of a cluster that has its own authorities.
var ownAlone = append([]string{credential.ProtocolRenewal}, bareProtocols...)

// refuseOwn refuses them where an outside issuer signs.
func (g *Authenticator) refuseOwn(protocols []string) error {
	if g.o.External != nil && slices.ContainsFunc(protocols, func(p string) bool { return slices.Contains(ownAlone, p) }) {
		return errExternal
	}
	return nil
}

// learn reads who the scheduler is, and whom it believes.
func (g *Authenticator) learn() error {
	if x := g.o.External; x != nil {
		if g.own = x.Identity(); g.own.Role != identity.RoleScheduler {
			return fmt.Errorf("cert: it is of %s: a scheduler needs one of role %s", g.own, identity.RoleScheduler)
		}
		g.trust = x.Trust()
		return g.believe(x.Denylist())
	}
	by, err := g.o.Folder.Identity()
	if err != nil {
		return fmt.Errorf("%s: %w", g.o.Folder.Dir, err)
	}
	if by.Role != identity.RoleAuthority {
		return fmt.Errorf("%s is of %s: a scheduler needs the folder of its own authority", g.o.Folder.Dir, by)
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

// refreshOwn takes up what the issuer has replaced.
func (g *Authenticator) refreshOwn() error {
	changed, err := g.o.External.Refresh()
	g.pair.Store(g.o.External.Pair())
	if changed {
		g.o.Log("This scheduler uses a new certificate, valid until %s", credential.Until(g.pair.Load().Leaf()))
	}
	return err
}
