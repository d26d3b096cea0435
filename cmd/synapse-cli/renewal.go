package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/device"
	"github.com/yi-json/synapse/messages"
)

// This file owns that the token of a context is renewed, where its issuer does that: before a connection is made, once
// half of the token's time is over. What renews it goes to the issuer and to the file of the contexts, and into no
// error.

// patience is how long an issuer may take while the token that there is still does.
const patience = 3 * time.Second

// session is the login that the context's token came from.
func session(r *client.Context) device.Session {
	return device.Session{Issuer: r.Issuer, Client: r.Client, Refresh: r.Refresh}
}

// lasts is from when to when the context's token is good; ok: it says that.
func lasts(r *client.Context) (from, until time.Time, ok bool) {
	b, err := credential.ReadBearer(r.Token)
	if err != nil {
		return from, until, false
	}
	token, ok := b.Issued()
	if !ok {
		return from, until, false
	}
	return device.Lasts(token)
}

// due reports whether the token is to be renewed now.
func due(r *client.Context, now time.Time) bool {
	from, until, ok := lasts(r)
	return ok && r.Refresh != "" && !now.Before(from.Add(until.Sub(from)/2))
}

// fresh is the token of a context to show now, and until when it is good. Where it is due, whoever comes first renews
// it, and the others find it renewed.
func (a *app) fresh(ctx context.Context, name string) (token string, until time.Time, err error) {
	all, err := a.contexts()
	if err != nil {
		return "", until, err
	}
	one, err := all.Find(name)
	if err != nil {
		return "", until, err
	}
	if due(one, time.Now()) {
		before := *one
		err := a.change(func(all *client.Contexts) (err error) {
			if one, err = all.Find(name); err == nil && due(one, time.Now()) {
				err = renew(ctx, one)
			}
			return err
		})
		if one == nil { // somebody has forgotten it meanwhile
			one = &before
		}
		switch _, until, _ = lasts(one); {
		case err != nil && !time.Now().Before(until):
			return "", until, notRenewed(name, err)
		case err != nil && one.Token != before.Token:
			a.say("Renewed token not saved: %s", err)
		}
	}
	_, until, _ = lasts(one)
	return one.Token, until, nil
}

// renew asks the issuer for the next token.
func renew(ctx context.Context, r *client.Context) error {
	b, err := credential.ReadBearer(r.Token)
	if err != nil {
		return err
	}
	if _, until, _ := lasts(r); time.Now().Before(until) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	next, err := session(r).Renew(ctx)
	if err == nil {
		r.Token, r.Refresh = credential.WithRoot(b.Cluster(), b.Root(), next.ID), next.Refresh
	}
	return err
}

// notRenewed says why a token that is over has no next one: somebody has to log in again, or it may pass.
func notRenewed(name string, err error) error {
	e := &client.Error{
		Code: messages.Code_CODE_UNAVAILABLE, Hint: "try again in a few seconds",
		Text: fmt.Sprintf("token of context %s has expired and cannot be renewed: %s", name, err),
	}
	if errors.Is(err, device.ErrOver) {
		e.Code, e.Hint = messages.Code_CODE_NOT_ALLOWED, "run `synapse-cli login` again"
	}
	return e
}

// sayRenewal says how long it is until somebody has to log in again.
func (a *app) sayRenewal(one client.Context, untilUnixMs int64) {
	if one.Refresh != "" {
		a.say("The issuer renews the token until you log out or a new login is required")
		return
	}
	a.say("Issuer sent no refresh token; the token expires at %s: log in again then, or now with --scope \"openid "+
		"profile email groups offline_access\"", time.UnixMilli(untilUnixMs).Format(time.DateTime))
}
