// Package oidc verifies user tokens of an OpenID Connect issuer: the user's name, and the role from the groups. It
// follows a configuration, requests only the issuer's keys, stores no tokens, and decides about no call.
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

// This file reads the configuration file of an issuer, which an administrator writes.

// Config is the configuration of an issuer.
type Config struct {
	Issuer   string `yaml:"issuer"`   // URL of the issuer as in its tokens
	Audience string `yaml:"audience"` // required audience of tokens: the client ID
	Name     string `yaml:"name"`     // claim with the user's name
	Domain   string `yaml:"domain"`   // domain after the @, which is removed; empty: names contain no @
	Groups   string `yaml:"groups"`   // claim with the groups; dots select nested claims
	// Roles maps roles to groups. A user in several of the groups gets the highest role.
	Roles map[identity.Role][]string `yaml:"roles"`
	// Others is the role of users in none of the groups; empty: they are refused.
	Others identity.Role `yaml:"others"`
	// Leeway is the permitted difference between the issuer's clock and this host's.
	Leeway time.Duration `yaml:"leeway"`
	// LocalUsers reports whether the names are account names on the nodes. A job with --user me then runs as
	// that account. It must stay false for providers at which users can edit their own name.
	LocalUsers bool   `yaml:"localUsers"`
	CA         string `yaml:"ca"` // file of CA certificates for the issuer; empty: those of the host
}

const (
	maxLeeway     = 5 * time.Minute
	defaultLeeway = 30 * time.Second
	// MaxConfigBytes limits the size of a configuration.
	MaxConfigBytes = 1 << 20
)

// ReadConfig parses and checks the text of a configuration.
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
	for role, groups := range c.Roles { //order: each is checked separately
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

// roleOf returns the highest role of these groups, or "" if there is none.
func (c *Config) roleOf(groups []string) identity.Role {
	for _, role := range identity.People { // highest first
		if slices.ContainsFunc(c.Roles[role], func(g string) bool { return slices.Contains(groups, g) }) {
			return role
		}
	}
	return c.Others
}
