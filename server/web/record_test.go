package web

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests recordings and the pages made of them.

func (s *scheduler) WhoAmI(context.Context, *api.WhoAmI, ...grpc.CallOption) (*api.WhoAmIReply, error) {
	return &api.WhoAmIReply{Cluster: "c-a", Name: "ada", Role: "admin",
		Rights: []*api.Right{{Name: "cancel"}, {Name: "read-logs"}}}, nil
}

func (s *scheduler) Cluster(context.Context, *api.Cluster, ...grpc.CallOption) (*api.ClusterReply, error) {
	return &api.ClusterReply{ClusterId: "c-a"}, nil
}

// ListJobs answers a question about labels with two pages of one job each.
func (s *scheduler) ListJobs(_ context.Context, q *messages.ListJobs, _ ...grpc.CallOption) (
	*messages.ListJobsReply, error) {
	switch {
	case len(q.GetLabels()) == 0:
		return &messages.ListJobsReply{}, nil
	case q.GetAfter() == "":
		return &messages.ListJobsReply{Jobs: []*messages.JobStatus{confidential()}, Next: "j1"}, nil
	}
	return &messages.ListJobsReply{Jobs: []*messages.JobStatus{{Record: &messages.JobRecord{Id: "j2"}}}}, nil
}

func (s *scheduler) GetQueues(context.Context, *messages.GetQueues, ...grpc.CallOption) (*messages.GetQueuesReply,
	error) {
	return &messages.GetQueuesReply{Queues: &messages.Queues{Default: "research"}}, nil
}

// tape is a writer that reports when a text has been written.
type tape struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (f *tape) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.Write(b)
}

func (f *tape) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// recorded returns an admin's recording of a cluster with one job.
func recorded(t *testing.T) string {
	t.Helper()
	s := &scheduler{events: make(chan *messages.Event, 8)}
	s.events <- &messages.Event{Seq: 1, Job: confidential(), Text: "job j1 running"}
	s.events <- nodeEvent(2, "n1", "</script><script>alert(1)</script>\u2028")
	s.events <- &messages.Event{Synced: true}
	ctx, cancel := context.WithCancel(t.Context())
	to, done := &tape{}, make(chan error, 1)
	go func() {
		_, _, err := Record(ctx, Options{API: s}, to)
		done <- err
	}()
	for deadline := pace.Until(20 * time.Second); !strings.Contains(to.all(), `"detail"`); {
		if time.Now().After(deadline) {
			t.Fatalf("the record has %s", to.all())
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return to.all()
}

// TestRecordIsAViewers checks that a recording by any user contains only what a viewer may see, with no rights and
// no commands of jobs.
func TestRecordIsAViewers(t *testing.T) {
	text := recorded(t)
	for _, want := range []string{`["me",{"cluster":"c-a"`, `"role":"viewer"`, `"may":{}`, `["job",{"id":"j1"`,
		`["detail",{"row":{"id":"j1"`, `["queues",{"revision":0,"default":"research"`, `["starts",[]]`} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	for _, never := range []string{"hush", "ada", "cancel"} {
		if strings.Contains(text, never) {
			t.Errorf("there is %s in\n%s", never, text)
		}
	}
}

// TestReplay checks that the page of a recording consists of scripts that load nothing, under a matching policy.
// Text from users stays data. Input that is not a recording is refused.
func TestReplay(t *testing.T) {
	made, err := Replay(strings.NewReader(recorded(t)))
	if err != nil {
		t.Fatal(err)
	}
	html, script, data := string(made["index.html"]), string(made["page.js"]), string(made["record.js"])
	if strings.Contains(html, "module") || !strings.Contains(html, `src="record.js"`) || !strings.Contains(html, "default-src 'none'") {
		t.Errorf("index.html is\n%s", html)
	}
	if left := regexp.MustCompile(`(?m)^(import|export) .*`).FindString(script); left != "" {
		t.Errorf("the script has %s", left)
	}
	if strings.Contains(data, "</script>") || !strings.HasPrefix(data, "globalThis.record = [\n{") {
		t.Errorf("the record is %s", data)
	}
	first, _, _ := strings.Cut(recorded(t), "\n")
	made, err = Replay(strings.NewReader(first + "\n" + `{"now":1} ]; globalThis.evil = 1; [`))
	if err != nil || strings.Contains(string(made["record.js"]), "evil") {
		t.Errorf("what stands behind a line runs: %v %s", err, made["record.js"])
	}
	for name, wrong := range map[string]string{
		"nothing": "", "no JSON": "alert(1)", "a stream": `{"now":1,"changes":[]}`, "a script": `{"now":1,"evil":1}`,
	} {
		if _, err := Replay(strings.NewReader(wrong)); err == nil {
			t.Errorf("%s makes a page", name)
		}
	}
}

// TestQueuesOfThePage checks that the page gets the owners of each queue and whether its user may use the queue.
// For a queue without owners it gets nothing.
func TestQueuesOfThePage(t *testing.T) {
	text, err := json.Marshal(queuesOf(&messages.GetQueuesReply{Queues: &messages.Queues{Queues: []*messages.QueueSpec{
		{Name: "open"}, {Name: "lab", Parent: "open", Owners: []string{"ann", "group:ml"}},
	}}, Barred: []string{"lab"}}))
	const want = `"queues":[{"name":"open"},{"name":"lab","parent":"open","owners":["ann","group:ml"],"barred":true}]`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("told is %s, %v", text, err)
	}
}
