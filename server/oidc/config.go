// Package oidc believes the tokens that an issuer of OpenID Connect signs of people: who they are, and by their groups
// what they may be here. It is told whom to believe, asks the issuer for its keys and for nothing else, keeps no token,
// and decides about no call.
package oidc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/oidc/described"
)

// This file owns whom we believe: a file that an administrator writes.

// Config is such a file.
type Config struct {
	Issuer   string `yaml:"issuer"`   // as its tokens name it, and where it describes itself
	Audience string `yaml:"audience"` // whom its tokens must be for: the client id
	Name     string `yaml:"name"`     // the claim that has a person's name
	Domain   string `yaml:"domain"`   // what stands behind an @ in it, and is taken away; empty: no name has an @
	Groups   string `yaml:"groups"`   // the claim that has the groups; dots lead into it
	// Roles are the groups whose people have a role; who is in several of them has the highest.
	Roles map[identity.Role][]string `yaml:"roles"`
	// Others is the role of people who are in none of them; empty: they are refused.
	Others identity.Role `yaml:"others"`
	// Leeway is how far the issuer's clock may be from this machine's.
	Leeway time.Duration `yaml:"leeway"`
	// LocalUsers: the names are those of the nodes' accounts, so a job with --user me runs as that account. Many providers
	// let people edit their own name: then it must stay false.
	LocalUsers bool   `yaml:"localUsers"`
	CA         string `yaml:"ca"` // a file of certificates by which the issuer is known; empty: the machine's
}

const (
	maxLeeway     = 5 * time.Minute
	defaultLeeway = 30 * time.Second
	// MaxConfigBytes bounds a configuration.
	MaxConfigBytes = 1 << 20
)

// ReadConfig reads and checks a file's text.
func ReadConfig(text []byte) (Config, error) {
	c := Config{Name: "preferred_username", Groups: "groups", Leeway: defaultLeeway}
	from := yaml.NewDecoder(bytes.NewReader(text))
	from.KnownFields(true)
	if err := from.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, err
	}
	return c, c.check()
}

func (c *Config) check() error {
	if err := described.CheckURL(c.Issuer); err != nil {
		return fmt.Errorf("issuer: %w", err)
	}
	for _, must := range []struct{ key, text string }{
		{"audience", c.Audience}, {"name", c.Name}, {"groups", c.Groups},
	} {
		if must.text == "" {
			return fmt.Errorf("%s: is missing", must.key)
		}
	}
	for role, groups := range c.Roles { //order: each is looked at alone
		if !slices.Contains(identity.People, role) {
			return fmt.Errorf("roles: %.64q is not a role of users: use %s", role, identity.Listed(identity.People))
		}
		if slices.Contains(groups, "") {
			return fmt.Errorf("roles: %s has a group without a name", role)
		}
	}
	switch {
	case c.Others != "" && !slices.Contains(identity.People, c.Others):
		return fmt.Errorf("others: %.64q is not a role of users: use %s", c.Others,
			identity.Listed(identity.People))
	case len(c.Roles) == 0 && c.Others == "":
		return errors.New("roles: no user would have a role; map groups to roles, or set others")
	case c.Leeway < 0 || c.Leeway > maxLeeway:
		return fmt.Errorf("leeway: %s must be 0s to %s", c.Leeway, maxLeeway)
	}
	return nil
}

// roleOf is the highest role that groups give; empty: none.
func (c *Config) roleOf(groups []string) identity.Role {
	for _, role := range identity.People { // the highest first
		if slices.ContainsFunc(c.Roles[role], func(g string) bool { return slices.Contains(groups, g) }) {
			return role
		}
	}
	return c.Others
}
