package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"sync"
)

// This file owns who may come in. On a port of the loop every user of the machine can knock, and every page that a
// browser has open can have it knock: so a secret lets one browser in, once, which then has a cookie that no script can
// read and no other page can have sent; and nothing else lets one in.

// cookie is the name of what a browser shows that was let in.
const cookie = "synapse_page"

// maxSessions bounds how many browsers are in at once: the oldest has to go.
const maxSessions = 32

type browserLogin struct {
	guest   *Guest
	entered func(next string)

	mu       sync.Mutex
	next     string   // the secret that lets the next browser in
	sessions []string // the oldest first
}

func newDoor(o Options) *browserLogin {
	return &browserLogin{guest: &Guest{API: o.API}, entered: o.Entered, next: unguessable()}
}

func unguessable() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (d *browserLogin) secret() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

// admits lets a browser in that was let in before, or has the secret.
func (d *browserLogin) admits(w http.ResponseWriter, r *http.Request) (*Guest, func()) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/" && r.URL.Query().Has("secret"):
		d.enter(w, r)
	case !d.knows(r):
		http.Error(w,
			"login required: open the link that `synapse-cli web` prints. Each link works once, in one browser",
			http.StatusUnauthorized)
	default:
		return d.guest, func() {}
	}
	return nil, nil
}

// enter lets a browser in that has the secret, which is good for nobody else from then on.
func (d *browserLogin) enter(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	ok := subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("secret")), []byte(d.next)) == 1
	session := unguessable()
	if ok {
		d.next = unguessable()
		if d.sessions = append(d.sessions, session); len(d.sessions) > maxSessions {
			d.sessions = d.sessions[1:]
		}
	}
	next := d.next
	d.mu.Unlock()
	if !ok && !d.knows(r) {
		http.Error(w, "this link is used or invalid: open the newest link of `synapse-cli web`", http.StatusUnauthorized)
		return
	}
	if ok {
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: session, Path: "/", HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
		if d.entered != nil {
			d.entered(next)
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (d *browserLogin) knows(r *http.Request) bool {
	c, err := r.Cookie(cookie)
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.sessions, func(s string) bool {
		return subtle.ConstantTimeCompare([]byte(c.Value), []byte(s)) == 1
	})
}
