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

// This file manages the issuer's keys. It requests them when a token names an unknown key, at most once a minute,
// because anyone can send a token with an unknown key. While the issuer is unreachable, known keys still work.

const (
	askAgain = time.Minute
	// oldAfter is the age after which keys are requested again, so that a withdrawn key is no longer accepted.
	oldAfter = time.Hour
	// asksFor limits one request to the issuer, because a handshake waits for it.
	asksFor = 2 * time.Second

	maxKeys = 64
)

// ErrAway means that the issuer must be asked but is not reachable now. A retry may succeed.
var ErrAway = errors.New("keys of the token issuer are not available")

// keys holds the keys of the issuer.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time
	tell   func(format string, args ...any)

	asking sync.Mutex // held during a request to the issuer
	failed error      // result of the last request; guarded by asking

	mu    sync.Mutex
	known []jose.JSONWebKey
	at    time.Time // when these keys were received
	asked time.Time // when they were last requested
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

// find returns the keys for a key ID, or all keys if the token names none.
func (k *keys) find(id string) ([]jose.JSONWebKey, error) {
	if found, old := k.look(id); len(found) > 0 {
		if old {
			go k.ask() // this call does not wait for it
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

// look returns the known keys. old reports whether to request them again.
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

// ask requests the keys, at most once a minute. Otherwise it returns the result of the last request.
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

// fetch reads the URL of the issuer's keys, and then the keys that can sign.
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
			all = append(all, one) // other kinds of keys cannot be used here
		}
	}
	if len(all) == 0 || len(all) > maxKeys {
		return nil, fmt.Errorf("issuer has %d signing keys: must be 1 to %d", len(all), maxKeys)
	}
	return all, nil
}
