package device

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// This file renews the token of a login without a browser. A refresh token is valid for longer than the ID tokens.
// It is sent only to its issuer, and errors never contain it.

// Session is a login that can be renewed.
type Session struct{ Issuer, Client, Refresh string }

// ErrOver means that the issuer does not renew the login: the user must log in again.
var ErrOver = errors.New("login at the issuer has expired")

// Renew requests the next token. The issuer may also send a new refresh token and invalidate the old one. Any error
// other than ErrOver may be temporary.
func (s Session) Renew(ctx context.Context) (Tokens, error) {
	client, about, err := ask(ctx, s.Issuer)
	if err != nil {
		return Tokens{}, err
	}
	var a asked
	status, err := post(ctx, client, about.Tokens, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {s.Refresh}, "client_id": {s.Client},
	}, &a)
	switch {
	case err != nil:
		return Tokens{}, err
	case status == http.StatusOK && a.Token != "":
		return Tokens{a.Token, cmp.Or(a.Refresh, s.Refresh)}, nil
	case status == http.StatusOK:
		return Tokens{}, fmt.Errorf("%w: issuer sent no new id_token", ErrOver)
	case status == http.StatusTooManyRequests, a.Error == "", a.Error == "temporarily_unavailable", a.Error == "slow_down":
		return Tokens{}, fmt.Errorf("issuer cannot renew the token now: %d %s", status, s.without(a.refusal))
	}
	return Tokens{}, fmt.Errorf("%w: %s", ErrOver, s.without(a.refusal))
}

// Revoke asks the issuer to end this login (RFC 7009), if the issuer supports it.
func (s Session) Revoke(ctx context.Context) error {
	client, about, err := ask(ctx, s.Issuer)
	if err != nil {
		return err
	}
	if about.Revocations == "" {
		return errors.New("issuer has no revocation endpoint")
	}
	var refused refusal
	status, err := post(ctx, client, about.Revocations, url.Values{
		"token": {s.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {s.Client},
	}, &refused)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("issuer rejected the request: %s", s.without(refused))
	}
	return err
}

// without returns the text of a refusal without the refresh token, which an issuer may have quoted.
func (s Session) without(r refusal) string {
	hide := strings.NewReplacer(s.Refresh, "(the refresh token)").Replace
	return refusal{hide(r.Error), hide(r.Text)}.String()
}

// Lasts returns the validity of a token from its claims, without verifying it. The owner of the token uses it to
// decide when to renew. ok reports whether the token contains the times.
func Lasts(token string) (from, until time.Time, ok bool) {
	parts := strings.Split(token, ".")
	const signed = 3 // header, claims, signature
	if len(parts) != signed {
		return from, until, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		From  float64 `json:"iat"`
		Until float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Until <= 0 {
		return from, until, false
	}
	return time.Unix(int64(claims.From), 0), time.Unix(int64(claims.Until), 0), true
}
