package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/oidc"
)

// This file connects the Authenticator with the verifier of an issuer's tokens, whose packages are independent.

// issued returns the function that verifies an issuer's tokens, or nil if none is configured.
func (s *scheduler) issued() (func(token string) (authn.Issued, error), error) {
	if s.oidcFile == "" {
		return nil, nil
	}
	issuer, err := oidc.New(s.oidc, time.Now, s.log.Info)
	if err != nil {
		return nil, fmt.Errorf("--oidc %s: %w", s.oidcFile, err)
	}
	s.log.Info("Tokens of the issuer %s are accepted", s.oidc.Issuer)
	return func(token string) (authn.Issued, error) {
		p, err := issuer.Verify(token)
		if errors.Is(err, oidc.ErrAway) {
			err = errors.Join(credential.ErrLater, err)
		}
		return authn.Issued{Role: p.Role, Name: p.Name, Until: p.Until, Groups: p.Groups, LocalUser: p.LocalUser}, err
	}, nil
}
