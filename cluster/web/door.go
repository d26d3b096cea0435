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
// read and no other page can have sent; and the server answers to its own names only.

// cookie is the name of what a browser shows that was let in.
const cookie = "synapse_page"

// maxSessions bounds how many browsers are in at once: the oldest has to go.
const maxSessions = 32

type door struct {
	hosts   []string
	entered func(next string)

	mu       sync.Mutex
	next     string   // the secret that lets the next browser in
	sessions []string // the oldest first
}

func newDoor(hosts []string, entered func(string)) *door {
	return &door{hosts: hosts, entered: entered, next: unguessable()}
}

func unguessable() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (d *door) secret() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

// guardHeaders has a browser run, show and fetch nothing but what comes from here, and show none of it inside another
// page. Nothing is kept: what one may see, the next at the same desk may not.
func guardHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// admits reports whether a request may go on. Else it is answered.
func (d *door) admits(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case !slices.Contains(d.hosts, r.Host):
		http.Error(w, "this server does not answer to that name", http.StatusMisdirectedRequest)
	case foreign(r):
		http.Error(w, "another page asks for this, and only the cluster's own may", http.StatusForbidden)
	case r.Method == http.MethodGet && r.URL.Path == "/" && r.URL.Query().Has("secret"):
		d.enter(w, r)
	case !d.knows(r):
		http.Error(w,
			"open the page by the link that `web` prints: it lets one browser in, once, and then the next link is printed",
			http.StatusUnauthorized)
	default:
		return true
	}
	return false
}

// foreign reports whether another page has the browser ask. What changes something has to say where it comes from; a
// browser that does not say so at all is too old to be believed.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return false
	case "none", "": // somebody typed the address, or it is no browser
		return r.Method != http.MethodGet && r.Header.Get("Origin") == ""
	}
	// A link elsewhere may lead to the page, which shows itself and does nothing.
	return r.Method != http.MethodGet || r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// enter lets a browser in that has the secret, which is good for nobody else from then on.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
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
		http.Error(w, "this link has been used, or was never one: `web` prints the next", http.StatusUnauthorized)
		return
	}
	if ok {
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: session, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
			SameSite: http.SameSiteStrictMode})
		if d.entered != nil {
			d.entered(next)
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (d *door) knows(r *http.Request) bool {
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
