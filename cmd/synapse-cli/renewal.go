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

// This file renews the token of a context if its issuer supports this: before a connection, when half of the
// token's lifetime has passed. The refresh token is sent only to the issuer and stored only in the contexts file.
// Errors never contain it.

// patience limits the time of a renewal while the current token is still valid.
const patience = 3 * time.Second

// session returns the login of the context's token.
func session(r *client.Context) device.Session {
	return device.Session{Issuer: r.Issuer, Client: r.Client, Refresh: r.Refresh}
}

// lasts returns the validity of the context's token. ok reports whether the token contains it.
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

// due reports whether the token must be renewed now.
func due(r *client.Context, now time.Time) bool {
	from, until, ok := lasts(r)
	return ok && r.Refresh != "" && !now.Before(from.Add(until.Sub(from)/2))
}

// fresh returns a valid token of a context and its expiry. If it is due, the first of several processes renews it,
// and the others use the new one.
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
		if one == nil { // the context was removed meanwhile
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

// renew requests the next token from the issuer.
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

// notRenewed returns the error for an expired token that was not renewed: a new login is needed, or a retry may
// help.
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

// sayRenewal prints the time until a new login is needed.
func (a *app) sayRenewal(one client.Context, untilUnixMs int64) {
	if one.Refresh != "" {
		a.say("The issuer renews the token until you log out or a new login is required")
		return
	}
	a.say("Issuer sent no refresh token; the token expires at %s: log in again then, or now with --scope \"openid "+
		"profile email groups offline_access\"", a.local(expiry(time.UnixMilli(untilUnixMs))))
}
