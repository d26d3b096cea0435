package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests pages with a login.

// people holds fake users, whose names are their tokens.
type people struct {
	api   *scheduler
	until map[string]context.CancelFunc
	ctx   map[string]context.Context
	open  int
}

func (p *people) LogIn(_ *http.Request, token string) (string, error) {
	if token != "ann" {
		return "", errors.New("no such token")
	}
	p.ctx[token], p.until[token] = context.WithCancel(context.Background())
	return "cookie-" + token, nil
}

func (p *people) Resume(_ *http.Request, cookie string) (*Guest, func(), error) {
	name := strings.TrimPrefix(cookie, "cookie-")
	if p.ctx[name] == nil || p.ctx[name].Err() != nil {
		return nil, nil, errors.New("log in")
	}
	p.open++
	return &Guest{API: p.api, Until: p.ctx[name], Leave: p.until[name]}, func() { p.open-- }, nil
}

// newDesk returns a page with a login, and a browser.
func newDesk(t *testing.T) (*visitor, *people) {
	p := &people{&scheduler{events: make(chan *messages.Event, 8)}, map[string]context.CancelFunc{},
		map[string]context.Context{}, 0}
	d := &visitor{t: t, browser: &http.Client{}}
	d.page = New(Options{Sessions: p, Secure: true, Answers: func(host string) bool { return host == "head1:9000" }})
	server := httptest.NewServer(d.page)
	d.url = server.URL
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return d, p
}

// says makes a request as the browser of host head1, from the page itself by default.
func (d *visitor) says(method, path, body string, headers map[string]string) (*http.Response, string) {
	d.t.Helper()
	all := map[string]string{"Host": "head1:9000", "Origin": "https://head1:9000", "Sec-Fetch-Site": "same-origin"}
	for name, value := range headers {
		all[name] = value
	}
	return d.ask(method, path, body, all)
}

// TestDesk checks that only the login page is available before login and after logout, and that scripts cannot read
// the cookie.
func TestDesk(t *testing.T) {
	d, p := newDesk(t)
	for path, want := range map[string]string{"/": "Log in", "/login.js": "/login", "/style.css": ":root",
		"/icon.svg": "<svg"} {
		if answer, text := d.says("GET", path, "", nil); answer.StatusCode != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	for _, path := range []string{"/me", "/stream", "/job?id=j1", "/logs?id=j1", "/app.js", "/nothing", "/waiting",
		"/queues"} {
		if answer, _ := d.says("GET", path, "", nil); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	for body, want := range map[string]int{
		`{"token":"eve"}`: http.StatusForbidden, `{}`: http.StatusBadRequest, "": http.StatusBadRequest,
		`{"token":"` + strings.Repeat("x", maxAsked) + `"}`: http.StatusBadRequest,
	} {
		if answer, _ := d.says("POST", "/login", body, nil); answer.StatusCode != want || len(answer.Cookies()) != 0 {
			t.Errorf("%.30s: %s", body, answer.Status)
		}
	}
	answer, _ := d.says("POST", "/login", `{"token":"ann"}`, nil)
	if d.cookies = answer.Cookies(); answer.StatusCode != http.StatusNoContent || len(d.cookies) != 1 {
		t.Fatalf("%s, %d cookies", answer.Status, len(d.cookies))
	}
	if c := d.cookies[0]; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
		c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("the cookie is %v", c)
	}
	if answer, text := d.says("GET", "/", "", nil); answer.StatusCode != 200 || !strings.Contains(text, "app.js") {
		t.Errorf("inside: %s", answer.Status)
	}
	if answer, _ := d.says("POST", "/logout", "", nil); answer.StatusCode != http.StatusNoContent ||
		answer.Cookies()[0].MaxAge >= 0 {
		t.Errorf("logging out: %s %v", answer.Status, answer.Cookies())
	}
	if answer, text := d.says("GET", "/", "", nil); !strings.Contains(text, "Log in") || p.open != 0 {
		t.Errorf("outside: %s, %d requests are open", answer.Status, p.open)
	}
}

// TestDeskIsNobodyElses checks that other pages cannot log in, log out or make requests, under any host name.
func TestDeskIsNobodyElses(t *testing.T) {
	d, p := newDesk(t)
	answer, _ := d.says("POST", "/login", `{"token":"ann"}`, nil)
	d.cookies = answer.Cookies()
	for name, headers := range map[string]map[string]string{
		"foreign origin": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
		"in the clear":   {"Origin": "http://head1:9000", "Sec-Fetch-Site": "cross-site"},
		"a form":         {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
		"no origin":      {"Origin": "", "Sec-Fetch-Site": ""},
		"rebound":        {"Host": "evil.example:9000", "Origin": "https://evil.example:9000"},
		"another port":   {"Origin": "https://head1:1", "Sec-Fetch-Site": "same-site"},
	} {
		for path, body := range map[string]string{"/login": `{"token":"ann"}`, "/logout": "", "/act": `{"verb":"hold","of":"j1"}`} {
			answer, _ := d.says("POST", path, body, headers)
			if answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s, %s: %s", name, path, answer.Status)
			}
		}
	}
	if len(p.api.asked) != 0 || p.ctx["ann"].Err() != nil {
		t.Errorf("it was asked %q, and the session is over: %v", p.api.asked, p.ctx["ann"].Err())
	}
}

// TestOpenPageEndsWithItsGuest checks that the stream of an open page ends with the session of its user.
func TestOpenPageEndsWithItsGuest(t *testing.T) {
	d, p := newDesk(t)
	answer, _ := d.says("POST", "/login", `{"token":"ann"}`, nil)
	d.cookies = answer.Cookies()
	p.api.events <- &messages.Event{Synced: true}
	stream := d.openAs("/stream", "head1:9000")
	stream.piece() // all has arrived
	p.until["ann"]()
	for stream.from.Scan() {
	}
	if err := stream.from.Err(); err != nil {
		t.Errorf("the stream is torn: %v", err)
	}
	if answer, _ := d.says("GET", "/stream", "", nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("and again: %s", answer.Status)
	}
}
