package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the submit of jobs from the page: who may submit, what the scheduler gets, and that no answer
// contains what a job runs.

// fakeFiles reads files of one word. Each file is a job that runs hush, or an error.
type fakeFiles struct{}

func (fakeFiles) Read(text []byte) ([]*messages.JobSpec, []Problem) {
	one := proto.Clone(confidential().GetRecord().GetSpec()).(*messages.JobSpec)
	switch string(text) {
	case "wrong":
		return nil, []Problem{{3, 5, "spec.gang", "unknown key", "did you mean replicas?"}}
	case "two":
		return []*messages.JobSpec{one, one}, nil
	case "secret":
		one.Secrets = []*messages.Secret{{Name: "TOKEN", Env: true}}
	case "script":
		one.Command, one.Script = nil, &messages.Script{Name: "x", Text: []byte("hush")}
	case "after":
		one.After = []*messages.After{{Job: "first"}}
	}
	return []*messages.JobSpec{one}, nil
}

func (fakeFiles) Precede(_ context.Context, _ api.SynapseClient, spec *messages.JobSpec) error {
	for _, a := range spec.GetAfter() {
		a.Job = "id-of-" + a.Job
	}
	return nil
}

// taking is a scheduler that takes jobs from a user with these rights.
type taking struct {
	*scheduler
	cluster string
	rights  []string
	refuses error
	got     []proto.Message
}

func (s *taking) WhoAmI(context.Context, *api.WhoAmI, ...grpc.CallOption) (*api.WhoAmIReply, error) {
	r := &api.WhoAmIReply{Cluster: s.cluster, Name: "ann", Role: "submitter"}
	for _, name := range s.rights {
		r.Rights = append(r.Rights, &api.Right{Name: name})
	}
	return r, nil
}

func (s *taking) Cluster(context.Context, *api.Cluster, ...grpc.CallOption) (*api.ClusterReply, error) {
	return &api.ClusterReply{}, nil
}

func (s *taking) take(kind string, q proto.Message) (*messages.SubmitReply, error) {
	s.note("%s", kind)
	s.got = append(s.got, q)
	return &messages.SubmitReply{Job: "j2", Outcome: &messages.Outcome{Code: messages.Code_CODE_OK}}, s.refuses
}

func (s *taking) Submit(_ context.Context, q *messages.Submit, _ ...grpc.CallOption) (*messages.SubmitReply, error) {
	return s.take("submit", q)
}

func (s *taking) SubmitScript(_ context.Context, q *messages.Submit, _ ...grpc.CallOption) (*messages.SubmitReply,
	error) {
	return s.take("script", q)
}

func (s *taking) DryRun(_ context.Context, q *messages.DryRun, _ ...grpc.CallOption) (*messages.DryRunReply, error) {
	_, err := s.take("try", q)
	return &messages.DryRunReply{Waits: "needs 8 GPUs", Ahead: 2, Nodes: []string{"n1"}, FreeUnixMs: 7}, err
}

// filer returns a page whose user may submit jobs, its scheduler, and a browser.
func filer(t *testing.T) (*visitor, *taking) {
	t.Helper()
	s := &taking{scheduler: &scheduler{}, cluster: "c-a", rights: []string{"submit", "submit-web"}}
	d := serve(t, s.scheduler)
	d.page.o.Files, d.page.door.guest.API, d.page.checks.pause = fakeFiles{}, s, 0
	return d.enter(), s
}

// posts makes a request as the page makes it.
func (d *visitor) posts(path, body string) (int, string) {
	d.t.Helper()
	answer, text := d.ask("POST", path, body, map[string]string{"Origin": d.url, "Sec-Fetch-Site": "same-origin",
		"Content-Type": "application/json"})
	return answer.StatusCode, text
}

// TestSubmit checks that a job file is checked, tried and submitted, with its hash, and that no answer contains the
// command, the environment or the script.
func TestSubmit(t *testing.T) {
	d, s := filer(t)
	want := map[string]string{
		"/check":  `{"name":"Train","asks":[{"what":"GPUs","each":8000,"total":16000}],"hash":"HASH","user":"ann"}`,
		"/try":    `"trial":{"waits":"needs 8 GPUs","ahead":2,"nodes":["n1"],"free":7}`,
		"/submit": `"user":"ann","job":"j2"`,
	}
	// printf job | sha256sum
	const sum = "5e8c9902207afaeb7120430c585a445f21e92932081d64bc99f80e4925bcb002"
	for _, path := range []string{"/check", "/try", "/submit"} {
		code, text := d.posts(path, `{"file":"job","id":"one"}`)
		if code != 200 || !strings.Contains(text, strings.ReplaceAll(want[path], "HASH", sum)) {
			t.Errorf("%s: %d %s", path, code, text)
		}
		if strings.Contains(text, "hush") {
			t.Errorf("%s answers what the job runs: %s", path, text)
		}
	}
	for file, call := range map[string]string{"script": "script", "after": "submit"} {
		if code, text := d.posts("/submit", `{"file":"`+file+`"}`); code != 200 || strings.Contains(text, "hush") ||
			s.asked[len(s.asked)-1] != call {
			t.Errorf("%s: %d %s %v", file, code, text, s.asked)
		}
	}
	tried, sent := s.got[0].(*messages.DryRun), s.got[1].(*messages.Submit)
	if tried.GetWebSource() != "sha256:"+sum || sent.GetWebSource() != "sha256:"+sum || sent.GetRequestId() != "web-one" ||
		sent.GetSpec().GetCommand()[1] != "--password=hush" || sent.GetAllowInfeasible() {
		t.Errorf("the scheduler got %v and %v", tried, sent)
	}
	if a, b := s.got[2].(*messages.Submit), s.got[3].(*messages.Submit); a.GetRequestId() == b.GetRequestId() {
		t.Error("two submits without an ID have the same request ID")
	}
	for _, q := range s.got {
		m, _ := q.(*messages.Submit)
		if after := m.GetSpec().GetAfter(); after != nil && after[0].GetJob() != "id-of-first" {
			t.Errorf("%v", after)
		}
	}
}

// TestSubmitProblems checks that a file with errors reaches no scheduler, and that the page reads no secrets, scripts
// and several jobs.
func TestSubmitProblems(t *testing.T) {
	d, s := filer(t)
	for file, want := range map[string]string{
		"wrong": `[{"line":3,"column":5,"path":"spec.gang","text":"unknown key","hint":"did you mean replicas?"}]`,
		"two":   "one job at a time", "secret": "cannot read the values of secrets", `#!/bin/sh\necho hush`: "is a script",
	} {
		for _, path := range []string{"/check", "/try", "/submit"} {
			if code, text := d.posts(path, `{"file":"`+file+`"}`); code != 200 || !strings.Contains(text, want) ||
				strings.Contains(text, "hush") {
				t.Errorf("%s of %s: %d %s", path, file, code, text)
			}
		}
	}
	for body, want := range map[string]int{
		`{"file":"` + strings.Repeat("x", maxFile+1) + `"}`: http.StatusRequestEntityTooLarge,
		`{"file":"` + strings.Repeat("x", maxFiled) + `"}`:  http.StatusRequestEntityTooLarge,
		`{"file":"hush`: http.StatusBadRequest, `{"hush":1}`: http.StatusBadRequest,
		`{"file":"job","id":"a b"}`: http.StatusBadRequest,
	} {
		if code, text := d.posts("/submit", body); code != want || strings.Contains(text, "hush") {
			t.Errorf("%.20s: %d %s", body, code, text)
		}
	}
	if s.got != nil {
		t.Errorf("the scheduler got %v", s.got)
	}
}

// TestRunAgain checks that the page sends only the ID of a job, and that an error about the content of the job does
// not reach the browser.
func TestRunAgain(t *testing.T) {
	d, s := filer(t)
	code, text := d.posts("/again", `{"of":"j1","id":"one"}`)
	want := &messages.Submit{Job: "j1", RequestId: "web-one", WebSource: messages.WebAgain}
	if code != 200 || !strings.Contains(text, `"user":"ann","job":"j2"`) || !proto.Equal(s.got[0], want) {
		t.Errorf("%d %s %v", code, text, s.got)
	}
	for _, body := range []string{`{}`, `{"of":"j1","file":"x"}`, `{"of":"j1","id":"a b"}`} {
		if code, _ := d.posts("/again", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, code)
		}
	}
	s.refuses = api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_INVALID, Text: `env "hush" is malformed`})
	if code, text := d.posts("/again", `{"of":"j1"}`); code != 400 || strings.Contains(text, "hush") ||
		!strings.Contains(text, "submit --from j1") {
		t.Errorf("%d %s", code, text)
	}
	s.refuses = api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_CONFLICT, Text: "has secrets"})
	if code, text := d.posts("/again", `{"of":"j1"}`); code != 409 || !strings.Contains(text, "has secrets") {
		t.Errorf("%d %s", code, text)
	}
}

// TestNoSubmit checks that the page neither offers nor accepts a submit without the right, on a port without login,
// from a scheduler that knows no users, and in a program that reads no job files.
func TestNoSubmit(t *testing.T) {
	for name, change := range map[string]func(*Page, *taking){
		"no right":      func(_ *Page, s *taking) { s.rights = []string{"submit"} },
		"no login":      func(p *Page, _ *taking) { p.o.Open = true },
		"no users":      func(_ *Page, s *taking) { s.cluster = "" },
		"reads no file": func(p *Page, _ *taking) { p.o.Files = nil },
	} {
		d, s := filer(t)
		if _, text := d.ask("GET", "/me", "", nil); !strings.Contains(text, `"submits":true`) {
			t.Fatal(text)
		}
		change(d.page, s)
		if _, text := d.ask("GET", "/me", "", nil); strings.Contains(text, `"submits"`) {
			t.Errorf("%s: offered: %s", name, text)
		}
		for _, path := range []string{"/check", "/try", "/submit", "/again"} {
			if code, text := d.posts(path, `{"file":"job","of":"j1"}`); code != http.StatusForbidden {
				t.Errorf("%s: %s answers %d %s", name, path, code, text)
			}
		}
		if s.got != nil {
			t.Errorf("%s: the scheduler got %v", name, s.got)
		}
	}
}

// TestForgedSubmit checks that other sites cannot submit: not by a form, not by a script, and not in a browser that
// does not tell the origin.
func TestForgedSubmit(t *testing.T) {
	d, s := filer(t)
	own := map[string]string{"Origin": d.url, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
	for name, change := range map[string][2]string{
		"another origin": {"Origin", "https://evil.example"}, "a null origin": {"Origin", "null"},
		"a sibling": {"Sec-Fetch-Site", "same-site"}, "another site": {"Sec-Fetch-Site", "cross-site"},
		"a form": {"Content-Type", "text/plain"}, "a coded form": {"Content-Type", "application/x-www-form-urlencoded"},
		"no type": {"Content-Type", ""}, "another host": {"Host", "evil.example"},
	} {
		headers := map[string]string{}
		for k, v := range own {
			headers[k] = v
		}
		headers[change[0]] = change[1]
		for _, path := range []string{"/check", "/try", "/submit", "/again"} {
			if answer, text := d.ask("POST", path, `{"file":"job"}`, headers); answer.StatusCode < 400 {
				t.Errorf("%s: %s answers %s %s", name, path, answer.Status, text)
			}
		}
	}
	for _, path := range []string{"/submit", "/again"} {
		if answer, _ := d.ask("GET", path, "", own); answer.StatusCode < 400 { // a link cannot submit
			t.Errorf("GET %s answers %s", path, answer.Status)
		}
	}
	d.cookies = nil
	if code, _ := d.posts("/submit", `{"file":"job"}`); code != http.StatusUnauthorized {
		t.Errorf("without a login: %d", code)
	}
	if s.got != nil {
		t.Errorf("the scheduler got %v", s.got)
	}
}

// TestChecking checks that the files of one user are read one at a time with a pause, that at most some wait, and
// that a user does not delay another.
func TestChecking(t *testing.T) {
	c := checking{pause: time.Hour, of: map[string]*place{}}
	done, err := c.begin(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range maxChecks - 1 {
		go func() {
			_, err := c.begin(ctx, "ann")
			ended <- err
		}()
	}
	for deadline := pace.Until(10 * time.Second); ; {
		c.mu.Lock()
		n := c.of["ann"].uses
		c.mu.Unlock()
		if n == maxChecks {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait", n)
		}
	}
	var over *mistake
	if _, err := c.begin(t.Context(), "ann"); !errors.As(err, &over) || over.status != http.StatusTooManyRequests {
		t.Errorf("one more: %v", err)
	}
	if other, err := c.begin(t.Context(), "bob"); err != nil {
		t.Errorf("another user: %v", err)
	} else {
		other()
	}
	done() // the pause begins
	cancel()
	for range maxChecks - 1 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a file was read before the pause was over: %v", err)
		}
	}
	c.pause = 0
	if done, err := c.begin(t.Context(), "eve"); err != nil {
		t.Error(err)
	} else {
		done()
	}
	for deadline := pace.Until(10 * time.Second); ; {
		c.mu.Lock()
		_, there := c.of["eve"]
		c.mu.Unlock()
		if !there {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the user is never forgotten")
		}
	}
}
