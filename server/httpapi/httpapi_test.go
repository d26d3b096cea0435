package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/test/able/pace"
)

// service is a fake whose answers the test sets.
type service struct {
	api.UnimplementedSynapseServer
	submit func(context.Context, *messages.Submit) (*messages.SubmitReply, error)
	watch  func(grpc.ServerStreamingServer[messages.Event]) error
}

func (s *service) Submit(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	return s.submit(ctx, q)
}

func (s *service) Watch(_ *messages.Watch, stream grpc.ServerStreamingServer[messages.Event]) error {
	return s.watch(stream)
}

// Exec echoes its requests.
func (s *service) Exec(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.Send(&api.ExecOut{End: &api.ExecEnd{Code: 7}})
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&api.ExecOut{Stdout: q.GetStdin()}); err != nil {
			return err
		}
	}
}

// rig serves the API on loopback.
type rig struct {
	*httptest.Server
	t   *testing.T
	api *API
	o   *Options
}

func newRig(t *testing.T, s *service) *rig {
	t.Helper()
	o := Options{
		Service: &caller.Service{API: s},
		Caller: func(r *http.Request) (*Caller, error) {
			return &Caller{Peer: peer.Peer{Addr: &net.TCPAddr{}}, Whom: r.Header.Get("Authorization")}, nil
		},
		Answers: func(host string) bool { return strings.HasPrefix(host, "127.0.0.1") || host == "head1" },
	}
	on := &rig{t: t, api: New(o)}
	on.o = &on.api.o
	on.Server = httptest.NewServer(on.api)
	t.Cleanup(on.Close)
	return on
}

// send sends a request with headers "Name: value", and returns the status, the headers and the text of the answer.
func (s *rig) send(method, path, body string, headers ...string) (int, http.Header, string) {
	s.t.Helper()
	q, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		switch name, value, _ := strings.Cut(h, ": "); name {
		case "":
		case "Host":
			q.Host = value
		default:
			q.Header.Set(name, value)
		}
	}
	answer, err := s.Client().Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Errorf("%s broke off: %v", text, err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

// fault returns the refusal in an answer.
func fault(text string) refusal {
	var f struct{ Error refusal }
	_ = json.Unmarshal([]byte(text), &f) // empty on an error
	return f.Error
}

// TestOnce checks that a call accepts both spellings of a field name, and answers with the spelling that errors
// use.
func TestOnce(t *testing.T) {
	var got *messages.Submit
	s := newRig(t, &service{submit: func(_ context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
		got = q
		return &messages.SubmitReply{Outcome: messages.OK(), Job: "j1"}, nil
	}})
	for _, body := range []string{
		`{"request_id":"r1","spec":{"time_limit_ms":60000,"launcher":"LAUNCH_NONE"}}`,
		`{"requestId":"r1","spec":{"timeLimitMs":"60000","launcher":7}}`,
	} {
		code, h, text := s.send("POST", "/v1/Submit", body)
		var reply struct {
			Outcome struct{ Code string }
			Job     string
		}
		if err := json.Unmarshal([]byte(text), &reply); err != nil || code != 200 || reply.Job != "j1" ||
			reply.Outcome.Code != "CODE_OK" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s, %v", code, text, err)
		}
		if got.GetRequestId() != "r1" || got.GetSpec().GetTimeLimitMs() != 60000 ||
			got.GetSpec().GetLauncher() != messages.Launch_LAUNCH_NONE {
			t.Errorf("%s was understood as %v", body, got)
		}
	}
	if code, _, _ := s.send("POST", "/v1/Submit", ""); code != 200 || got.GetRequestId() != "" {
		t.Errorf("a request of nothing: %d %v", code, got)
	}
}

// TestWalls checks that invalid requests, and requests of a browser's page, are refused before a call is made.
func TestWalls(t *testing.T) {
	s := newRig(t, &service{submit: func(context.Context, *messages.Submit) (*messages.SubmitReply, error) {
		t.Error("a call was made")
		return nil, errors.New("no")
	}})
	long := strings.Repeat("x", maxBytes+1)
	for _, c := range []struct {
		method, path, body, header string
		code                       int
		field                      string
	}{
		{"POST", "/v1/Submit", "{}", "Origin: http://evil", 403, "Origin"},
		{"POST", "/v1/Submit", "{}", "Origin: " + s.URL, 403, "Origin"},
		{"POST", "/v1/Submit", "{}", "Sec-Fetch-Site: same-origin", 403, "Sec-Fetch-Site"},
		{"POST", "/v1/Submit", "{}", "Cookie: __Host-synapse=x", 403, "Cookie"},
		{"POST", "/v1/Submit", "{}", "Host: evil", 421, "Host"},
		{"GET", "/v1/openapi.json", "", "Origin: http://evil", 403, "Origin"},
		{"OPTIONS", "/v1/Submit", "", "Access-Control-Request-Method: POST", 405, ""},
		{"GET", "/v1/Submit", "", "", 405, ""},
		{"POST", "/v1/Submit", "{}", "Content-Type: text/plain", 415, "Content-Type"},
		{"POST", "/v1/Submit", "{}", "Content-Type: application/x-www-form-urlencoded", 415, "Content-Type"},
		{"POST", "/v1/Submit", "{}", "Content-Type: application/x-ndjson", 415, "Content-Type"},
		{"POST", "/v1/submit", "{}", "", 404, ""},
		{"POST", "/v1/", "{}", "", 404, ""},
		{"POST", "/v1/Submit", long, "", 413, "Content-Length"},
		{"POST", "/v1/Submit", "{", "", 400, ""},
		{"POST", "/v1/Submit", `[]`, "", 400, ""},
		{"POST", "/v1/Submit", `{"sepc":{}}`, "", 400, "sepc"},
		{"POST", "/v1/Submit", `{"spec":{"priority":"high"}}`, "", 400, "priority"},
		{"POST", "/v1/Submit", `{"spec":{"launcher":"LAUNCH_ROCKET"}}`, "", 400, "launcher"},
	} {
		code, h, text := s.send(c.method, c.path, c.body, c.header)
		f := fault(text)
		if code != c.code || f.Field != c.field || f.Text == "" || f.Code == "" || strings.Contains(f.Text, "\u00a0") {
			t.Errorf("%s %s %.40s %s: %d %s, want %d about %q", c.method, c.path, c.body, c.header, code, text, c.code, c.field)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, h)
		}
	}
	q, _ := http.NewRequest("POST", s.URL+"/v1/Submit", io.MultiReader(strings.NewReader("{}"))) // no length
	q.Header.Set("Content-Type", "application/json")
	if answer, err := s.Client().Do(q); err != nil || answer.StatusCode != 411 {
		t.Errorf("without a length: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
}

// TestRefusals checks that each code of an Outcome has its own status and keeps its text. The retry time and the
// leader's name are headers.
func TestRefusals(t *testing.T) {
	var why error
	s := newRig(t, &service{submit: func(ctx context.Context, _ *messages.Submit) (*messages.SubmitReply, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(api.RetryAfterTrailer, "3", api.LeaderTrailer, "head2:9000"))
		return nil, why
	}})
	seen := map[int]messages.Code{}
	for code := messages.Code_CODE_INVALID; messages.Code_name[int32(code)] != ""; code++ {
		why = api.StatusOf(&messages.Outcome{Code: code, Field: "spec.name", Text: "is bad", Hint: "be good"})
		status, h, text := s.send("POST", "/v1/Submit", "{}")
		if f := fault(text); f.Code != code.String() || f.Field != "spec.name" || f.Text != "is bad" || f.Hint != "be good" {
			t.Errorf("%s is told as %s", code, text)
		}
		if other, ok := seen[status]; ok || status < 400 || status >= 500 && status != 503 {
			t.Errorf("%s has the status %d, as %s", code, status, other)
		}
		if seen[status] = code; h.Get("Retry-After") != "3" || h.Get(LeaderHeader) != "head2:9000" {
			t.Errorf("%s has the headers %v", code, h)
		}
	}
	why = errors.New("of the scheduler's insides")
	if status, _, _ := s.send("POST", "/v1/Submit", "{}"); status != 500 {
		t.Errorf("a fault of the scheduler: %d", status)
	}
	if status, _, text := s.send("POST", "/v1/Cancel", "{}"); status != 501 {
		t.Errorf("what this scheduler does not do: %d %s", status, text)
	}
	for err, want := range map[error]int{ErrWho: 401, ErrLater: 503, errors.New("two"): 403} {
		s.o.Caller = func(*http.Request) (*Caller, error) { return nil, fmt.Errorf("%w: so", err) }
		status, h, text := s.send("POST", "/v1/Submit", "{}")
		if status != want || fault(text).Text == "" || (h.Get("WWW-Authenticate") == "Bearer") != (want == 401) {
			t.Errorf("%v: %d %s %v", err, status, text, h)
		}
	}
}

// TestLines checks that several answers are lines. A late error is the last line, and an early error has a status.
func TestLines(t *testing.T) {
	no := api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_EXHAUSTED, Text: "too slow"})
	var sent int
	var end error
	s := newRig(t, &service{watch: func(stream grpc.ServerStreamingServer[messages.Event]) error {
		for i := range sent {
			if err := stream.Send(&messages.Event{Seq: uint64(i) + 1, Text: "a\nb"}); err != nil {
				return err
			}
		}
		return end
	}})
	for _, c := range []struct {
		sent   int
		end    error
		status int
		last   string
	}{
		{0, nil, 200, ""}, {100, nil, 200, `"result"`}, {100, no, 200, `{"error":{"code":"CODE_EXHAUSTED"`},
		{0, no, 429, `{"error":{"code":"CODE_EXHAUSTED"`},
	} {
		sent, end = c.sent, c.end
		status, _, text := s.send("POST", "/v1/Watch", `{"jobs":true}`)
		all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if status != c.status || !strings.Contains(all[len(all)-1], c.last) || strings.Count(text, `"result"`) != c.sent {
			t.Errorf("%d answers and %v: %d %d lines, the last is %s", c.sent, c.end, status, len(all), all[len(all)-1])
		}
		for _, line := range all {
			if line != "" && !json.Valid([]byte(line)) {
				t.Errorf("a line is %s", line)
			}
		}
	}
}

// TestBeat checks that an idle answer gets its status and empty lines, whether or not the call sends a header. The
// call ends when the client disconnects.
func TestBeat(t *testing.T) {
	for _, says := range []bool{true, false} {
		beats(t, says)
	}
}

func beats(t *testing.T, says bool) {
	over := make(chan struct{})
	s := newRig(t, &service{watch: func(stream grpc.ServerStreamingServer[messages.Event]) error {
		defer close(over)
		if says {
			if err := stream.SendHeader(metadata.MD{}); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}})
	s.api.beat = time.Millisecond
	ctx, leave := context.WithCancel(t.Context())
	q, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/Watch", strings.NewReader("{}"))
	q.Header.Set("Content-Type", "application/json")
	answer, err := s.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	two := make([]byte, 2)
	if _, err := io.ReadFull(answer.Body, two); err != nil || string(two) != "\n\n" || answer.StatusCode != 200 {
		t.Errorf("%d %q, %v", answer.StatusCode, two, err)
	}
	leave()
	<-over
}

// TestConverse checks a call with streams in both directions. An invalid line ends the call.
func TestConverse(t *testing.T) {
	s := newRig(t, &service{})
	talk := func() (io.WriteCloser, *bufio.Reader) {
		body, write := io.Pipe()
		q, _ := http.NewRequest("POST", s.URL+"/v1/Exec", body)
		q.Header.Set("Content-Type", "application/x-ndjson")
		go fmt.Fprintln(write, `{"stdin":"aGk="}`)
		answer, err := s.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return write, bufio.NewReader(answer.Body)
	}
	write, read := talk()
	for range 3 {
		line, err := read.ReadString('\n')
		if err != nil || strings.ReplaceAll(line, " ", "") != `{"result":{"stdout":"aGk="}}`+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
		fmt.Fprintln(write, `{"stdin":"aGk="}`)
	}
	write.Close()
	rest, err := io.ReadAll(read)
	if err != nil || !bytes.Contains(rest, []byte(`"code":7`)) && !bytes.Contains(rest, []byte(`"code": 7`)) {
		t.Errorf("%s, %v", rest, err)
	}
	write, read = talk()
	fmt.Fprintln(write, `{"stdni":""}`)
	rest, err = io.ReadAll(read)
	if err != nil || !bytes.Contains(rest, []byte(`{"error":{"code":"CODE_INVALID","field":"stdni"`)) {
		t.Errorf("%s, %v", rest, err)
	}
}

// TestLarge checks that each caller has at most one large body in memory, within the total limit, and that small
// bodies do not wait.
func TestLarge(t *testing.T) {
	s := newRig(t, &service{submit: func(context.Context, *messages.Submit) (*messages.SubmitReply, error) {
		return &messages.SubmitReply{}, nil
	}})
	s.api.bodies.wait = time.Minute
	begin := func(whom string, bytes int) io.WriteCloser {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/Submit HTTP/1.1\r\nHost: head1\r\nContent-Type: application/json\r\n"+
			"Authorization: %s\r\nContent-Length: %d\r\n\r\n{", whom, bytes)
		return conn
	}
	held := func(want int) {
		t.Helper()
		for deadline := pace.Until(time.Minute); ; time.Sleep(time.Millisecond) {
			s.api.bodies.mu.Lock()
			n := len(s.api.bodies.of)
			s.api.bodies.mu.Unlock()
			if n == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d large requests are on their way, want %d", n, want)
			}
		}
	}
	first := begin("ann", maxBytes)
	held(1)
	large := `{"request_id":"` + strings.Repeat("x", 2*littleBytes) + `"}`
	if code, h, text := s.send("POST", "/v1/Submit", large, "Authorization: ann"); code != 429 ||
		h.Get("Retry-After") != "1" {
		t.Errorf("another one of ann's: %d %s", code, text)
	}
	if code, _, text := s.send("POST", "/v1/Submit", large, "Authorization: bob"); code != 200 {
		t.Errorf("one of bob's: %d %s", code, text)
	}
	begin("bob", maxBytes)
	held(2) // it waits for memory
	if code, _, text := s.send("POST", "/v1/Submit", "{}", "Authorization: ann"); code != 200 {
		t.Errorf("a small one: %d %s", code, text)
	}
	first.Close()
	held(1)
}
