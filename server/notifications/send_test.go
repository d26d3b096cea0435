package notifications

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// script holds the events of successive watches. Each watch fails after its events.
type script struct {
	api.SynapseClient
	mu    sync.Mutex
	turns [][]*messages.Event
	over  context.CancelFunc // called after the last watch
}

type scriptStream struct {
	grpc.ServerStreamingClient[messages.Event]
	events []*messages.Event
}

func (s *script) Watch(context.Context, *messages.Watch, ...grpc.CallOption,
) (grpc.ServerStreamingClient[messages.Event], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		s.over()
		return nil, errors.New("no leader")
	}
	events := s.turns[0]
	s.turns = s.turns[1:]
	return &scriptStream{events: events}, nil
}

func (s *scriptStream) Recv() (*messages.Event, error) {
	if len(s.events) == 0 {
		return nil, io.EOF
	}
	e := s.events[0]
	s.events = s.events[1:]
	return e, nil
}

// run runs a notifier over the events of watches, until all are processed and more, if set, returns true.
func run(t *testing.T, dir string, rules []Rule, more func() bool, turns ...[]*messages.Event) (log string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	s := &script{turns: turns, over: sync.OnceFunc(func() { close(done) })}
	var mu sync.Mutex
	var lines []string
	n := New(Options{
		Cluster: "c1", Rules: rules, API: s, Dir: dir, WallMs: func() int64 { return 1000 },
		Log: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf(format, args...))
		},
		Pause: func(ctx context.Context, _ time.Duration) { pause(ctx, time.Millisecond) },
	})
	ended := make(chan struct{})
	go func() { n.Run(ctx); close(ended) }()
	<-done
	for limit := pace.Until(20 * time.Second); more != nil && !more(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Error("not all is told that must be")
			break
		}
	}
	cancel()
	<-ended
	mu.Lock()
	defer mu.Unlock()
	return strings.Join(lines, "\n")
}

// keeps records the notifications of a rule.
type keeps struct {
	mu   sync.Mutex
	told []Notification
}

func (k *keeps) Tell(_ context.Context, n *Notification) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, *n)
	return nil
}

func (k *keeps) words() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, n := range k.told {
		all = append(all, n.Rule+" "+n.ID)
	}
	return strings.Join(all, ", ")
}

// TestRulesChoose checks that each rule gets the selected notifications, also across a failed watch. A restart
// sends nothing again.
func TestRulesChoose(t *testing.T) {
	dir, all, some, none := t.TempDir(), &keeps{}, &keeps{}, &keeps{}
	rules := []Rule{
		{Name: "all", On: []string{JobOver, MachineClosed}, Tell: all.Tell},
		{Name: "nlp", On: []string{JobOver}, Queues: []string{"nlp"}, Outcomes: []string{"failed"}, Tell: some.Tell},
		{Name: "bob", On: []string{JobOver}, Owners: []string{"bob"}, Tell: none.Tell},
	}
	other := func(j *messages.JobStatus) { j.Record.Spec.Queue = "vision" }
	first := []*messages.Event{jobIs("j1", 0), nodeIs("n1", "up", ""), synced, jobIs("j1", 1000), jobIs("j2", 1001, other)}
	again := []*messages.Event{jobIs("j1", 1000), jobIs("j2", 1001, other), jobIs("j3", 1002),
		nodeIs("n1", "up", "full disk"),
		synced}
	four := func() bool { return strings.Count(all.words(), ",") == 3 && strings.Count(some.words(), ",") == 1 }
	run(t, dir, rules, four, first, again)
	if got, want := all.words(),
		"all job-finished/j1, all job-finished/j2, all job-finished/j3, all node-unschedulable/n1/77"; got != want {
		t.Errorf("told %s", got)
	}
	if got, want := some.words()+none.words(), "nlp job-finished/j1, nlp job-finished/j3"; got != want {
		t.Errorf("told %s", got)
	}
	run(t, dir, rules, nil, again)
	if got := some.words(); got != "nlp job-finished/j1, nlp job-finished/j3" {
		t.Errorf("after a restart: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, noteFile)); err != nil || !strings.Contains(string(text), "j3") {
		t.Errorf("noted %s, %v", text, err)
	}
}

// TestNotesThatCount checks that a notifier continues from the saved note. An unreadable note, or one from the
// future, is ignored. Otherwise nothing would be sent until that time.
func TestNotesThatCount(t *testing.T) {
	const now = int64(1_000_000)
	note := func(until int64) string { return fmt.Sprintf(`{"untilUnixMs": %d, "jobs": {"j1": 7}}`, until) }
	for text, since := range map[string]int64{
		"": now, "{": now, `{"untilUnixMs": "5"}`: now, note(0): now, note(-1): now,
		note(1): 1, note(now - 1): now - 1, note(now): now, note(now + 1): now, note(now * 2): now,
	} {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, noteFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n := New(Options{Dir: dir, WallMs: func() int64 { return now }})
		counts := text == note(1) || text == note(now-1) || text == note(now)
		if told := len(n.sight.told) > 0; n.sight.since != since || told != counts {
			t.Errorf("after the note %q it begins at %d, and knows of jobs: %v", text, n.sight.since, told)
		}
	}
}

// quietWatch sends nothing until its caller ends it.
type quietWatch struct {
	api.SynapseClient
	grpc.ServerStreamingClient[messages.Event]
	gone <-chan struct{}
}

func (w quietWatch) Watch(ctx context.Context, _ *messages.Watch, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[messages.Event], error) {
	return quietWatch{gone: ctx.Done()}, nil
}

func (w quietWatch) Recv() (*messages.Event, error) {
	<-w.gone
	return nil, io.EOF
}

// TestKilledBeforeNews checks that a scheduler saves its start time in the note before the first event. If it is
// killed, the next scheduler reports the jobs that ended meanwhile.
func TestKilledBeforeNews(t *testing.T) {
	o := Options{API: quietWatch{}, Dir: t.TempDir(), WallMs: func() int64 { return 1000 }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { New(o).Run(ctx); close(ended) }()
	noted := filepath.Join(o.Dir, noteFile)
	for limit := pace.Until(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(noted); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("nothing is noted while the watch lasts")
		}
	}
	o.WallMs = func() int64 { return 9000 }
	if got := news(New(o).sight, jobIs("j1", 5000)); got == "" {
		t.Error("a job that ended meanwhile is not told")
	}
	cancel()
	<-ended
}

// TestWhoDoesNotAnswer checks that a refused notification is retried and then dropped with a log line. A receiver
// that never answers loses its notifications, and no other receiver does.
func TestWhoDoesNotAnswer(t *testing.T) {
	var good keeps
	var failed atomic.Int32
	rules := []Rule{
		{Name: "bad", On: []string{MachineClosed}, Tell: func(context.Context, *Notification) error {
			failed.Add(1)
			return errors.New("no")
		}},
		{Name: "stuck", On: []string{JobOver}, Tell: func(ctx context.Context, _ *Notification) error {
			<-ctx.Done()
			return ctx.Err()
		}},
		{Name: "good", On: []string{MachineClosed}, Tell: good.Tell},
	}
	events := []*messages.Event{synced, nodeIs("n1", "up", "cordoned")}
	for i := range maxQueue + 2 {
		events = append(events, jobIs(fmt.Sprint("j", i), 2000))
	}
	events = append(events, nodeIs("n2", "up", "cordoned"))
	both := func() bool { return failed.Load() == 2*tries && strings.Contains(good.words(), "n2") }
	log := run(t, "", rules, both, events, events) // repeated, so that the first refusal has been logged
	for _, want := range []string{
		"notify.bad: not delivered: node n1 is unschedulable: cordoned (5 tries): no",
		"notify.stuck: the receiver is too slow: notifications are lost from now on",
	} {
		if strings.Count(log, want) != 1 {
			t.Errorf("%q is not said once in:\n%s", want, log)
		}
	}
	if got, want := good.words(), "good node-unschedulable/n1/77, good node-unschedulable/n2/77"; got != want {
		t.Errorf("told %s", got)
	}
}

// TestWebhook checks that a notification is posted as JSON with the token from the file, that any 2xx status
// accepts it, and that redirects are not followed.
func TestWebhook(t *testing.T) {
	var got Notification
	var said string
	slow := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/away":
			http.Redirect(w, q, "/page", http.StatusTemporaryRedirect)
		case "/page":
			said = q.Method + " " + q.Header.Get("Content-Type") + " " + q.Header.Get("Authorization")
			if json.NewDecoder(q.Body).Decode(&got) != nil {
				t.Error("it is no JSON")
			}
			w.WriteHeader(http.StatusAccepted)
		case "/slow":
			<-slow
		}
	}))
	defer s.Close()
	defer close(slow)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &Notification{ID: "job-finished/j1", Event: JobOver, Text: "over", Job: &AboutJob{ID: "j1", ExitCode: 3}}
	w := Webhook{URL: s.URL + "/page", TokenFile: token, Timeout: time.Minute}
	if err := w.Tell(t.Context(), n); err != nil || said != "POST application/json Bearer s3" || got.Job == nil ||
		*got.Job != *n.Job {
		t.Errorf("%v, %q, %+v", err, said, got)
	}
	w.URL = s.URL + "/away"
	if err := w.Tell(t.Context(), n); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("redirected: %v", err)
	}
	w.URL, w.Timeout = s.URL+"/slow", 10*time.Millisecond
	if err := w.Tell(t.Context(), n); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of one that never answers: %v", err)
	}
	w.TokenFile += "x"
	if err := w.Tell(t.Context(), n); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its token: %v", err)
	}
}
