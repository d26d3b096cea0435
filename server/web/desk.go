package web

import (
	"encoding/json"
	"net/http"
)

// This file implements login and logout. On a shared page, each user logs in with a token and sees what its role
// permits. The token is sent once. The browser then has a cookie that scripts cannot read and other pages cannot
// use.

// Sessions manages login sessions. The program that serves the page implements it.
type Sessions interface {
	// LogIn checks a token, and returns the cookie of the new session.
	LogIn(r *http.Request, token string) (cookie string, err error)
	// Resume returns the user of this cookie for one request. Call done after the request.
	Resume(r *http.Request, cookie string) (guest *Guest, done func(), err error)
}

// deskCookie is the name of the session cookie. With this prefix, browsers accept it only over TLS and for one
// host.
const deskCookie = "__Host-synapse"

// desk admits browsers with a session.
type desk struct {
	o     Options
	files http.Handler
}

// unlocked lists the files that a browser needs to log in. They are public.
var unlocked = map[string]string{
	"/": "/login.html", "/login.js": "/login.js", "/style.css": "/style.css", "/icon.svg": "/icon.svg",
}

// admits returns the user of a session, and otherwise answers with the login page.
func (d *desk) admits(w http.ResponseWriter, r *http.Request) (*Guest, func()) {
	if r.Method == http.MethodPost && r.URL.Path == "/login" {
		d.logIn(w, r)
		return nil, nil
	}
	guest, done, err := d.resume(r)
	switch {
	case err != nil && r.Method == http.MethodGet && unlocked[r.URL.Path] != "":
		r.URL.Path = unlocked[r.URL.Path]
		d.files.ServeHTTP(w, r)
		return nil, nil
	case err != nil:
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return nil, nil
	case r.Method == http.MethodPost && r.URL.Path == "/logout":
		guest.Leave()
		done()
		d.give(w, "", -1)
		w.WriteHeader(http.StatusNoContent)
		return nil, nil
	}
	return guest, done
}

func (d *desk) resume(r *http.Request) (*Guest, func(), error) {
	c, err := r.Cookie(deskCookie)
	if err != nil {
		return nil, nil, &mistake{text: "login required"}
	}
	return d.o.Sessions.Resume(r, c.Value)
}

// logIn answers a token with a cookie.
func (d *desk) logIn(w http.ResponseWriter, r *http.Request) {
	var said struct {
		Token string `json:"token"`
	}
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAsked))
	in.DisallowUnknownFields()
	if err := in.Decode(&said); err != nil || said.Token == "" {
		http.Error(w, "token is missing", http.StatusBadRequest)
		return
	}
	value, err := d.o.Sessions.LogIn(r, said.Token)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	d.give(w, value, 0)
	w.WriteHeader(http.StatusNoContent)
}

// give sets the cookie until the browser closes. An age of -1 deletes it.
func (d *desk) give(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: deskCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
}
