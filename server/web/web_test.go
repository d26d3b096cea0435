package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// scheduler is a fake that answers a page and records its requests.
type scheduler struct {
	api.SynapseClient
	events  chan *messages.Event
	parts   []*api.PastPart
	watches atomic.Int32 // open watches
	mu      sync.Mutex
	asked   []string
}

func (s *scheduler) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

func (s *scheduler) Watch(ctx context.Context, _ *messages.Watch, _ ...grpc.CallOption) (
	grpc.ServerStreamingClient[messages.Event], error) {
	s.watches.Add(1)
	context.AfterFunc(ctx, func() { s.watches.Add(-1) })
	return &watching{ctx: ctx, from: s.events}, nil
}

type watching struct {
	grpc.ClientStream
	ctx  context.Context
	from chan *messages.Event
}

func (w *watching) Recv() (*messages.Event, error) {
	select {
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	case e, ok := <-w.from:
		if !ok {
			return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: "it is gone"})
		}
		return e, nil
	}
}

func (s *scheduler) GetJob(_ context.Context, q *messages.GetJob, _ ...grpc.CallOption) (*messages.GetJobReply, error) {
	if q.GetJob() != "j1" {
		return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Text: "no such job"})
	}
	return &messages.GetJobReply{Job: confidential()}, nil
}

func (s *scheduler) Cancel(_ context.Context, q *messages.Cancel, _ ...grpc.CallOption) (*messages.CancelReply, error) {
	s.note("cancel %s %s", q.GetJob(), q.GetReason())
	return &messages.CancelReply{}, nil
}

func (s *scheduler) Hold(_ context.Context, q *messages.Hold, _ ...grpc.CallOption) (*messages.HoldReply, error) {
	s.note("hold %s %v", q.GetJob(), q.GetRelease())
	return &messages.HoldReply{}, nil
}

func (s *scheduler) ChangeNode(_ context.Context, q *messages.ChangeNode, _ ...grpc.CallOption) (
	*messages.ChangeNodeReply, error) {
	s.note("%s %s %s", q.GetVerb(), q.GetNode(), q.GetReason())
	return &messages.ChangeNodeReply{}, nil
}

func (s *scheduler) ReadPast(_ context.Context, q *api.ReadPast, _ ...grpc.CallOption) (
	grpc.ServerStreamingClient[api.PastPart], error) {
	s.note("past %d %d %d", q.GetAtUnixMs(), q.GetUntilUnixMs(), q.GetStepMs())
	return &parts{left: s.parts}, nil
}

// parts is an answer in several parts.
type parts struct {
	grpc.ClientStream
	left []*api.PastPart
}

func (p *parts) Recv() (*api.PastPart, error) {
	if len(p.left) == 0 {
		return nil, io.EOF
	}
	next := p.left[0]
	p.left = p.left[1:]
	if next == nil {
		return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: "nothing is kept"})
	}
	return next, nil
}

// confidential returns a job with private data in each possible place.
func confidential() *messages.JobStatus {
	return &messages.JobStatus{Phase: messages.PhaseRunning, Record: &messages.JobRecord{
		Id: "j1", Owner: &messages.Principal{Name: "ann"}, State: messages.JobState_JOB_STATE_ACTIVE,
		Spec: &messages.JobSpec{
			Name: "train", Title: "Train", Command: []string{"./train", "--password=hush"}, Workdir: "/hush",
			Env:    []*messages.EnvVar{{Name: "TOKEN", Value: "hush"}},
			Labels: []*messages.Label{{Key: "team", Value: "hush"}}, Image: "registry/hush",
			Gang: &messages.GangSpec{ReplicasMin: 2}, Each: &messages.Resources{MilliGpu: 8_000},
		},
	}}
}

// visitor holds a served page and a browser.
type visitor struct {
	t       *testing.T
	page    *Page
	url     string
	browser *http.Client
	cookies []*http.Cookie
	nexts   []string
}

func serve(t *testing.T, s *scheduler) *visitor {
	d := &visitor{t: t, browser: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
	server := httptest.NewUnstartedServer(nil)
	host := server.Listener.Addr().String()
	d.page = New(Options{API: s, Answers: func(name string) bool {
		return name == host
	}, Entered: func(next string) { d.nexts = append(d.nexts, next) }})
	server.Config.Handler, d.url = d.page, "http://"+host
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(8 << 10) // small buffers, so that a slow reader blocks early
		return ctx
	}
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return d
}

// enter admits the browser.
func (d *visitor) enter() *visitor {
	d.t.Helper()
	answer, _ := d.ask("GET", "/?secret="+url.QueryEscape(d.page.Secret()), "", nil)
	if d.cookies = answer.Cookies(); answer.StatusCode != http.StatusSeeOther || len(d.cookies) != 1 {
		d.t.Fatalf("%s, %d cookies", answer.Status, len(d.cookies))
	}
	return d
}

// ask makes a request as the browser, and reads the answer.
func (d *visitor) ask(method, path, body string, headers map[string]string) (*http.Response, string) {
	d.t.Helper()
	q, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, c := range d.cookies {
		q.AddCookie(c)
	}
	for name, value := range headers {
		q.Header.Set(name, value)
		if name == "Host" {
			q.Host = value
		}
	}
	answer, err := d.browser.Do(q)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer, string(text)
}

// TestSecretLetsOneIn checks that a link admits one browser and nobody who reads it later, and that the next
// browser needs a new link.
func TestSecretLetsOneIn(t *testing.T) {
	d := serve(t, &scheduler{})
	if answer, _ := d.ask("GET", "/", "", nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a secret: %s", answer.Status)
	}
	first := d.page.Secret()
	d.enter()
	if c := d.cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", c)
	}
	if len(d.nexts) != 1 || d.nexts[0] != d.page.Secret() || d.nexts[0] == first {
		t.Errorf("the next secrets are %q", d.nexts)
	}
	if answer, text := d.ask("GET", "/", "", nil); answer.StatusCode != 200 || !strings.Contains(text, "Synapse") {
		t.Errorf("inside: %s", answer.Status)
	}
	d.cookies = nil
	for _, secret := range []string{first, "", "x"} {
		if answer, _ := d.ask("GET", "/?secret="+secret, "", nil); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q lets in: %s", secret, answer.Status)
		}
	}
	d.cookies = []*http.Cookie{{Name: cookie, Value: "guessed"}}
	if answer, _ := d.ask("GET", "/me", "", nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a cookie that nobody gave: %s", answer.Status)
	}
}

// TestSessionsAreBounded checks that the oldest of too many browsers must be admitted again.
func TestSessionsAreBounded(t *testing.T) {
	d := serve(t, &scheduler{}).enter()
	first := d.cookies
	for range maxSessions {
		d.enter()
	}
	if answer, _ := d.ask("GET", "/", "", nil); answer.StatusCode != 200 {
		t.Errorf("the last one: %s", answer.Status)
	}
	d.cookies = first
	if answer, _ := d.ask("GET", "/", "", nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the first one: %s", answer.Status)
	}
}

// TestOtherPagesAreRefused checks that requests caused by another page are refused, even with the cookie: by the
// origin, by the browser's Sec-Fetch headers, and by the host name.
func TestOtherPagesAreRefused(t *testing.T) {
	s := &scheduler{}
	d := serve(t, s).enter()
	const cancel = `{"verb":"cancel","of":"j1"}`
	for name, try := range map[string]struct {
		method, path string
		headers      map[string]string
		want         int
	}{
		"rebound name":     {"GET", "/", map[string]string{"Host": "evil.example:80"}, http.StatusMisdirectedRequest},
		"foreign origin":   {"POST", "/act", map[string]string{"Origin": "http://evil.example"}, http.StatusForbidden},
		"origin null":      {"POST", "/act", map[string]string{"Origin": "null"}, http.StatusForbidden},
		"no origin":        {"POST", "/act", nil, http.StatusForbidden},
		"a form elsewhere": {"POST", "/act", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"another port":     {"POST", "/act", map[string]string{"Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		"a stream elsewhere": {"GET", "/stream", map[string]string{"Origin": "http://evil.example"},
			http.StatusForbidden},
		"a script elsewhere": {"GET", "/app.js", map[string]string{"Sec-Fetch-Site": "cross-site"},
			http.StatusForbidden},
		"a link elsewhere": {"GET", "/",
			map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200},
		"a frame of another port": {"GET", "/me", map[string]string{"Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		"our own":                 {"POST", "/act", map[string]string{"Origin": d.url, "Sec-Fetch-Site": "same-origin"}, 200},
	} {
		body := ""
		if try.method == "POST" {
			body = cancel
		}
		if answer, text := d.ask(try.method, try.path, body, try.headers); answer.StatusCode != try.want {
			t.Errorf("%s: %s %s", name, answer.Status, text)
		}
	}
	if !slices.Equal(s.asked, []string{"cancel j1 "}) {
		t.Errorf("it was asked %q", s.asked)
	}
}

// TestEveryAnswerIsGuarded checks that no answer, including errors, may be framed, sniffed or stored, or run other
// scripts.
func TestEveryAnswerIsGuarded(t *testing.T) {
	d := serve(t, &scheduler{})
	for range 2 {
		for _, path := range []string{"/", "/app.js", "/nothing", "/job?id=j1", "/job"} {
			answer, _ := d.ask("GET", path, "", nil)
			policy := answer.Header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
				!strings.Contains(policy, "frame-ancestors 'none'") || answer.Header.Get("X-Frame-Options") != "DENY" ||
				answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.StatusCode == 200 &&
				answer.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %v", path, answer.Header)
			}
		}
		d.enter()
	}
}

// TestPageRunsNothingInline checks for inline scripts, which the policy would block.
func TestPageRunsNothingInline(t *testing.T) {
	for _, name := range []string{"index.html", "login.html"} {
		lacks(t, name, "<style", " style=", " onclick", " onload", "http:", "https:", "<script>", "javascript:")
	}
	all, err := fs.Glob(files, "page/*.js")
	if err != nil || len(all) < 10 {
		t.Fatalf("the page's modules are %q: %v", all, err)
	}
	for _, path := range all {
		lacks(t, filepath.Base(path), "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write",
			"new Function", "javascript:")
	}
}

// lacks checks that a file of the page does not contain these words, which could turn text into markup or code.
func lacks(t *testing.T, name string, words ...string) {
	t.Helper()
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range words {
		if strings.Contains(string(text), wrong) {
			t.Errorf("%s has %q", name, wrong)
		}
	}
}

// TestNothingPrivateIsSent checks that no answer contains commands, arguments or environments of jobs.
func TestNothingPrivateIsSent(t *testing.T) {
	s := &scheduler{events: make(chan *messages.Event, 4)}
	d := serve(t, s).enter()
	s.events <- &messages.Event{Seq: 1, Job: confidential(), Text: "job j1 running"}
	s.events <- &messages.Event{Synced: true}
	stream := d.open("/stream")
	_, job := d.ask("GET", "/job?id=j1", "", nil)
	for name, text := range map[string]string{"the stream": stream.line(), "the job": job} {
		if strings.Contains(text, "hush") || !strings.Contains(text, `"name":"Train"`) ||
			!strings.Contains(text, `"gpus":16000`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// eventStream reads an open stream.
type eventStream struct {
	t    *testing.T
	from *bufio.Scanner
}

func (d *visitor) open(path string) *eventStream {
	d.t.Helper()
	return d.openAs(path, "")
}

// openAs opens a stream under a host name.
func (d *visitor) openAs(path, host string) *eventStream {
	d.t.Helper()
	return d.openFor(d.t.Context(), path, host)
}

// openFor opens a stream that ends with a context.
func (d *visitor) openFor(ctx context.Context, path, host string) *eventStream {
	d.t.Helper()
	q, err := http.NewRequestWithContext(ctx, "GET", d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	q.Host = host
	for _, c := range d.cookies {
		q.AddCookie(c)
	}
	answer, err := d.browser.Do(q)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { answer.Body.Close() })
	scanner := bufio.NewScanner(answer.Body)
	scanner.Buffer(nil, 16<<20)
	return &eventStream{d.t, scanner}
}

// line returns the next piece.
func (r *eventStream) line() string {
	r.t.Helper()
	for r.from.Scan() {
		if text, ok := strings.CutPrefix(r.from.Text(), "data: "); ok {
			return text
		}
	}
	r.t.Fatalf("the stream ended: %v", r.from.Err())
	return ""
}

func (r *eventStream) piece() (p piece) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.line()), &p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// until reads until a change appears, and returns all changes up to it.
func (r *eventStream) until(there string) (all string) {
	r.t.Helper()
	for !strings.Contains(all, there) {
		for _, c := range r.piece().Changes {
			all += string(c) + "\n"
		}
	}
	return all
}

// TestWishes checks that a requested action reaches the scheduler unchanged, and that an invalid one is refused.
func TestWishes(t *testing.T) {
	s := &scheduler{}
	d := serve(t, s).enter()
	own := map[string]string{"Origin": d.url}
	for _, body := range []string{
		`{"verb":"cancel","of":"j1","reason":"wrong <b>data</b>"}`, `{"verb":"hold","of":"j1"}`, `{"verb":"release","of":"j1"}`,
		`{"verb":"drain","of":"n1","reason":"fan"}`, `{"verb":"uncordon","of":"n1"}`,
	} {
		if answer, text := d.ask("POST", "/act", body, own); answer.StatusCode != 200 {
			t.Errorf("%s: %s %s", body, answer.Status, text)
		}
	}
	want := []string{"cancel j1 wrong <b>data</b>", "hold j1 false", "hold j1 true", "NODE_VERB_DRAIN n1 fan",
		"NODE_VERB_UNCORDON n1 "}
	if !slices.Equal(s.asked, want) {
		t.Errorf("it was asked %q", s.asked)
	}
	for _, body := range []string{"", "{}", `{"verb":"remove","of":"n1"}`, `{"verb":"hold","of":"j","x":1}`,
		`{"verb":"hold","of":"` + strings.Repeat("x", maxAsked) + `"}`} {
		if answer, _ := d.ask("POST", "/act", body, own); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%.40s: %s", body, answer.Status)
		}
	}
	if answer, text := d.ask("GET", "/job?id=j2", "", nil); answer.StatusCode != 404 || text != "no such job\n" {
		t.Errorf("%s %s", answer.Status, text)
	}
}
