// Package device requests a token from an OpenID Connect issuer for a user who logs in with a browser on any device
// (RFC 8628). It needs no browser on this host and opens no port. If the issuer supports it, the package also
// renews the token. It stores nothing.
package device

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/yi-json/synapse/server/oidc/described"
)

const (
	grant = "urn:ietf:params:oauth:grant-type:device_code"

	usualPause = 5 * time.Second // RFC 8628, 3.2 and 3.5
	usualEnd   = 10 * time.Minute
	asksFor    = 10 * time.Second
)

// Flow is one request for a token.
type Flow struct {
	Issuer, Client, Scope string
	// Tell receives the URL and the code for the login.
	Tell func(at, code string)
	// Pause waits until the next request to the issuer is permitted; nil: uses a timer.
	Pause func(ctx context.Context, d time.Duration) error
}

// begun is the issuer's answer to the device authorization request.
type begun struct {
	Device   string `json:"device_code"`
	Code     string `json:"user_code"`
	At       string `json:"verification_uri"`
	Whole    string `json:"verification_uri_complete"` // contains the code
	ExpiresS int64  `json:"expires_in"`
	PauseS   int64  `json:"interval"`
	refusal
}

// asked is the issuer's answer to a token request.
type asked struct {
	Token   string `json:"id_token"`
	Refresh string `json:"refresh_token"`
	refusal
}

// Tokens holds the tokens of an issuer: ID identifies the user, and Refresh, if not empty, renews ID.
type Tokens struct{ ID, Refresh string }

// refusal is an error answer of the issuer.
type refusal struct {
	Error string `json:"error"`
	Text  string `json:"error_description"`
}

func (r refusal) String() string {
	return strings.TrimSpace(fmt.Sprintf("%.100s %.300s", r.Error, r.Text))
}

// Token asks the issuer until the user has logged in, or the time has expired.
func (f Flow) Token(ctx context.Context) (t Tokens, err error) {
	if f.Pause == nil {
		f.Pause = pause
	}
	client, about, err := ask(ctx, f.Issuer)
	if err != nil {
		return t, err
	}
	if about.Device == "" || about.Tokens == "" {
		return t, fmt.Errorf("issuer %s does not support login from another device; get a token from it in another "+
			"way and pass it with --token-file", f.Issuer)
	}
	var b begun
	status, err := post(ctx, client, about.Device, url.Values{"client_id": {f.Client}, "scope": {f.Scope}}, &b)
	switch {
	case err != nil:
		return t, err
	case status != http.StatusOK || b.Device == "" || b.Code == "" || b.At == "":
		return t, fmt.Errorf("issuer %s rejected the login of %s: %s", f.Issuer, f.Client, b.refusal)
	}
	at := b.At
	if b.Whole != "" {
		at = b.Whole
	}
	f.Tell(at, b.Code)
	return f.await(ctx, client, about.Tokens, b)
}

// await repeats the token request at the interval that the issuer permits.
func (f Flow) await(ctx context.Context, client *http.Client, at string, b begun) (t Tokens, err error) {
	every, left := time.Duration(b.PauseS)*time.Second, time.Duration(b.ExpiresS)*time.Second
	if every <= 0 {
		every = usualPause
	}
	if left <= 0 {
		left = usualEnd
	}
	for ; left > 0; left -= every {
		if err := f.Pause(ctx, every); err != nil {
			return t, err
		}
		var a asked
		status, err := post(ctx, client, at, url.Values{
			"grant_type": {grant}, "device_code": {b.Device}, "client_id": {f.Client},
		}, &a)
		switch {
		case err != nil:
			every *= 2 // as for an overloaded issuer
		case status == http.StatusOK && a.Token != "":
			return Tokens{a.Token, a.Refresh}, nil
		case status == http.StatusOK:
			return t, errors.New("issuer sent no id_token: add openid to --scope")
		case a.Error == "authorization_pending":
		case a.Error == "slow_down":
			every += usualPause
		case a.Error == "expired_token":
			left = 0
		default:
			return t, fmt.Errorf("issuer rejected the login: %s", a.refusal)
		}
	}
	return t, errors.New("login not completed in time")
}

// ask reads the issuer's discovery document, and returns the client for further requests.
func ask(ctx context.Context, issuer string) (*http.Client, described.Description, error) {
	client := described.Client(http.DefaultTransport)
	client.Timeout = asksFor
	about, err := described.Ask(ctx, client, issuer)
	if err != nil {
		err = fmt.Errorf("issuer not reachable: %w", err)
	}
	return client, about, err
}

func post(ctx context.Context, client *http.Client, at string, form url.Values, into any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	return described.Answer(client, request, into)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
