package oidc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/oidc/described"
)

// This file owns the issuer's keys: asked for when a token names one that is not known, at most once a minute, because
// anybody can show a token that names one. Keys that are known need no issuer: it may be away, and people come in.

const (
	askAgain = time.Minute
	// oldAfter is when keys are asked for again although nobody needs another: one that the issuer has withdrawn is
	// believed no longer.
	oldAfter = time.Hour
	// asksFor bounds one question to the issuer: somebody's handshake waits for it.
	asksFor = 2 * time.Second

	maxKeys = 64
)

// ErrAway says that the issuer has to be asked, and cannot be: another time it may be.
var ErrAway = errors.New("issuer of the tokens is not reachable for its keys")

// keys are the issuer's.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time
	tell   func(format string, args ...any)

	asking sync.Mutex // held while the issuer is asked
	failed error      // how that ended; guarded by asking

	mu    sync.Mutex
	known []jose.JSONWebKey
	at    time.Time // when these came
	asked time.Time // when they were last asked for
}

func newKeys(c Config, now func() time.Time, tell func(string, ...any)) (*keys, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		var err error
		if config.RootCAs, err = identity.ReadPool(c.CA); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	return &keys{issuer: c.Issuer, now: now, tell: tell, client: described.Client(
		&http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment})}, nil
}

// find is the keys that a token of this key id may be signed with; without one, all.
func (k *keys) find(id string) ([]jose.JSONWebKey, error) {
	if found, old := k.look(id); len(found) > 0 {
		if old {
			go k.ask() // and this one does not wait for it
		}
		return found, nil
	}
	err := k.ask()
	if found, _ := k.look(id); len(found) > 0 {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	return nil, errors.New("token is signed with an unknown key")
}

// look returns the keys that are known; old: it is time to ask for them again.
func (k *keys) look(id string) (found []jose.JSONWebKey, old bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.known {
		if id == "" || one.KeyID == id {
			found = append(found, one)
		}
	}
	now := k.now()
	return found, now.Sub(k.at) >= oldAfter && now.Sub(k.asked) >= askAgain
}

// ask asks the issuer, unless somebody did within the last minute: then it is how that ended.
func (k *keys) ask() error {
	k.asking.Lock()
	defer k.asking.Unlock()
	k.mu.Lock()
	now := k.now()
	lately := !k.asked.IsZero() && now.Sub(k.asked) < askAgain
	if !lately {
		k.asked = now
	}
	k.mu.Unlock()
	if lately {
		return k.failed
	}
	fresh, err := k.fetch()
	k.failed = err
	if err != nil {
		k.tell("The issuer %s did not return its keys, and the known keys stay valid: %v", k.issuer, err)
		return err
	}
	k.mu.Lock()
	k.known, k.at = fresh, now
	k.mu.Unlock()
	return nil
}

// fetch reads where the issuer's keys are, and then those of them that can sign.
func (k *keys) fetch() (all []jose.JSONWebKey, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), asksFor)
	defer cancel()
	about, err := described.Ask(ctx, k.client, k.issuer)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := described.Get(ctx, k.client, about.Keys, &set); err != nil {
		return nil, err
	}
	for _, raw := range set.Keys {
		var one jose.JSONWebKey
		if one.UnmarshalJSON(raw) == nil && one.Valid() && one.IsPublic() && (one.Use == "" || one.Use == "sig") {
			all = append(all, one) // of another kind are those that we could not use
		}
	}
	if len(all) == 0 || len(all) > maxKeys {
		return nil, fmt.Errorf("issuer has %d signing keys: must be 1 to %d", len(all), maxKeys)
	}
	return all, nil
}
