package oidc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file verifies tokens.

// signed lists the accepted algorithms: those with which only the issuer can sign. HS256 is excluded, because an
// attacker could use the public key as the shared secret.
var signed = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Person describes the user of a token.
type Person struct {
	Name  string
	Role  identity.Role
	Until time.Time
	// Groups lists the groups in the token, including those without a role.
	Groups []string
	// LocalUser reports whether the name is an account name on the nodes.
	LocalUser bool
}

// Issuer verifies the tokens of one issuer.
type Issuer struct {
	c    Config
	keys *keys
	now  func() time.Time
}

// New creates an Issuer. It makes no request before the first token. now, if not nil, is the clock. tell receives
// lines for operators.
func New(c Config, now func() time.Time, tell func(format string, args ...any)) (*Issuer, error) {
	if now == nil {
		now = time.Now
	}
	keys, err := newKeys(c, now, tell)
	return &Issuer{c: c, keys: keys, now: now}, err
}

// Verify returns the user of a token. Its errors contain only parts of the token that the signature proves. ErrAway
// is a possible error.
func (i *Issuer) Verify(token string) (Person, error) {
	t, err := jwt.ParseSigned(token, signed)
	if err != nil || len(t.Headers) != 1 {
		return Person{},
			errors.New("token is not signed by an issuer (RS256, ES256 or similar)")
	}
	found, err := i.keys.find(t.Headers[0].KeyID)
	if err != nil {
		return Person{}, err
	}
	var own jwt.Claims
	var all map[string]any
	for _, key := range found {
		if key.Algorithm != "" && key.Algorithm != t.Headers[0].Algorithm {
			continue
		}
		if t.Claims(key.Key, &own, &all) == nil {
			return i.person(own, all)
		}
	}
	return Person{}, errors.New("token signature does not match its key")
}

// person checks the claims of a signed token against the configuration.
func (i *Issuer) person(own jwt.Claims, all map[string]any) (p Person, err error) {
	now := i.now()
	err = own.ValidateWithLeeway(jwt.Expected{Issuer: i.c.Issuer, AnyAudience: []string{i.c.Audience}, Time: now},
		i.c.Leeway)
	clock := now.UTC().Format("2006-01-02 15:04:05 MST")
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return p, fmt.Errorf("token is of issuer %.100q, and only %s is accepted", own.Issuer, i.c.Issuer)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return p, fmt.Errorf("token is for %.100q, not for %s", []string(own.Audience), i.c.Audience)
	case errors.Is(err, jwt.ErrExpired):
		return p, fmt.Errorf("%w at %s, and the scheduler's clock shows %s", identity.ErrOver, said(own.Expiry),
			clock)
	case errors.Is(err, jwt.ErrNotValidYet):
		return p, fmt.Errorf("token is valid from %s, and the scheduler's clock shows %s", said(own.NotBefore), clock)
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return p, fmt.Errorf("token was issued at %s, and the scheduler's clock shows %s", said(own.IssuedAt), clock)
	case err != nil:
		return p, err
	case own.Expiry == nil:
		return p, errors.New("token has no expiry")
	}
	if by, _ := all["azp"].(string); len(own.Audience) > 1 && by != "" && by != i.c.Audience {
		return p, fmt.Errorf("token was issued to %.100q, not to %s", by, i.c.Audience)
	}
	p.LocalUser = i.c.LocalUsers
	p.Until = own.Expiry.Time().Add(i.c.Leeway)
	if p.Name, err = i.nameIn(all); err != nil {
		return p, err
	}
	p.Groups = texts(within(all, i.c.Groups))
	if p.Role = i.c.roleOf(p.Groups); p.Role == "" {
		return p, fmt.Errorf("%s is in no group with a role on this cluster (claim %s of the token)", p.Name,
			i.c.Groups)
	}
	return p, nil
}

func said(d *jwt.NumericDate) string { return d.Time().UTC().Format("2006-01-02 15:04:05 MST") }

// nameIn returns the user's name. It refuses an email address that the issuer has not verified, because a user
// could enter the address of another user.
func (i *Issuer) nameIn(all map[string]any) (string, error) {
	name, _ := within(all, i.c.Name).(string)
	if name == "" {
		return "", fmt.Errorf("token has no claim %s, which is used for the name", i.c.Name)
	}
	if proved, _ := all["email_verified"].(bool); i.c.Name == "email" && !proved {
		return "", fmt.Errorf("token has the address %.100q, which the issuer has not verified", name)
	}
	if i.c.Domain == "" {
		return name, nil
	}
	short, is := strings.CutSuffix(name, "@"+i.c.Domain)
	if !is {
		return "", fmt.Errorf("token belongs to %.100q, which is not in %s", name, i.c.Domain)
	}
	return short, nil
}

// within returns the claim with this name, or else the nested claim that the dots select.
func within(all map[string]any, path string) any {
	if v, ok := all[path]; ok {
		return v
	}
	first, rest, deeper := strings.Cut(path, ".")
	inner, ok := all[first].(map[string]any)
	if !deeper || !ok {
		return nil
	}
	return within(inner, rest)
}

// texts returns the strings of a claim that is a string or a list.
func texts(claim any) (all []string) {
	if one, is := claim.(string); is {
		return []string{one}
	}
	list, _ := claim.([]any)
	for _, v := range list {
		if one, is := v.(string); is {
			all = append(all, one)
		}
	}
	return slices.Compact(all)
}
