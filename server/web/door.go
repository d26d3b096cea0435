package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"sync"
)

// This file admits browsers to a page without a login, on a loopback port. Every user of the host can connect to
// the port, and any page in a browser can make requests to it. A secret admits one browser once. The browser then
// has a cookie that scripts cannot read and other pages cannot use.

// cookie is the name of the cookie of an admitted browser.
const cookie = "synapse_page"

// maxSessions limits the number of admitted browsers. Beyond it, the oldest is removed.
const maxSessions = 32

type browserLogin struct {
	guest   *Guest
	entered func(next string)

	mu       sync.Mutex
	next     string   // secret that admits the next browser
	sessions []string // oldest first
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

// admits admits a browser with the cookie or with the secret.
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

// enter admits a browser with the secret, and replaces the secret.
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
