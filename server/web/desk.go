package web

import (
	"encoding/json"
	"net/http"
)

// This file owns logging in and out: where a page is for many, each comes in by a token and sees what its role may. The
// token is said once. What the browser keeps is a cookie that no script reads and no other page has it send.

// Sessions knows those who have logged in; whoever serves the page knows who they are.
type Sessions interface {
	// LogIn takes a token, and answers the cookie by which the browser is known from then on.
	LogIn(r *http.Request, token string) (cookie string, err error)
	// Resume is who has this cookie, for one request; done ends that.
	Resume(r *http.Request, cookie string) (guest *Guest, done func(), err error)
}

// deskCookie is the name of what a browser shows that has logged in: with this prefix browsers take it for one host
// only, by TLS only, and not from a host beside it.
const deskCookie = "__Host-synapse"

// desk is the way of those who log in.
type desk struct {
	o     Options
	files http.Handler
}

// unlocked lists what a browser needs in order to log in: files that are in every copy of the program.
var unlocked = map[string]string{
	"/": "/login.html", "/login.js": "/login.js", "/style.css": "/style.css", "/icon.svg": "/icon.svg",
}

// admits lets in who has logged in, and shows everybody else where.
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
		return nil, nil, &mistake{"login required"}
	}
	return d.o.Sessions.Resume(r, c.Value)
}

// logIn answers a token by a cookie.
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

// give sets the cookie, for as long as the browser runs; an age of −1 takes it away.
func (d *desk) give(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: deskCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteStrictMode})
}
