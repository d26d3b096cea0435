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

// This file owns how somebody who has logged in gets the next token, without a browser. A refresh token is good for
// longer than those that it is for: it is told to its issuer alone, and no error has it.

// Session is such a login.
type Session struct{ Issuer, Client, Refresh string }

// ErrOver is why an issuer gives no further token: somebody has to log in again.
var ErrOver = errors.New("login at the issuer has expired")

// Renew asks for the next token. With it an issuer may give another refresh token, and take the one before no more. An
// error that is not ErrOver may pass.
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

// Revoke has the issuer renew nothing for this login any more (RFC 7009), where it can be told that.
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

// without is a refusal in which an issuer may have said what it was told.
func (s Session) without(r refusal) string {
	hide := strings.NewReplacer(s.Refresh, "(the refresh token)").Replace
	return refusal{hide(r.Error), hide(r.Text)}.String()
}

// Lasts is from when to when a token is good, as it says of itself: for whoever has it, and wants to know when to ask
// for the next. Ok: it says that.
func Lasts(token string) (from, until time.Time, ok bool) {
	parts := strings.Split(token, ".")
	const signed = 3 // head, claims, signature
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
