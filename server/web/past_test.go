package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestPast checks that the timeline arrives as one list, for any split of its lines. An invalid request is refused,
// and an interrupted answer is not valid JSON.
func TestPast(t *testing.T) {
	s := &scheduler{parts: []*api.PastPart{{SinceUnixMs: 7}, {Lines: []byte("{\"now\":1}\n{\"now\":2}\n")}, {},
		{Lines: []byte("{\"now\":3}\n"), UntilUnixMs: 9}}}
	d := serve(t, s).enter()
	answer, text := d.ask("GET", "/past?at=1&until=20&step=3", "", nil)
	if want := `{"since":7,"record":[{"now":1},{"now":2},{"now":3}],"until":9}`; text != want || answer.StatusCode != 200 {
		t.Errorf("%s %s, not %s", answer.Status, text, want)
	}
	if len(s.asked) != 1 || s.asked[0] != "past 1 20 3" {
		t.Errorf("it was asked %q", s.asked)
	}
	for _, path := range []string{"/past", "/past?at=1", "/past?at=x&until=1", "/past?at=1&until=2&step=x"} {
		if answer, _ := d.ask("GET", path, "", nil); answer.StatusCode != 400 {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	s.parts = []*api.PastPart{nil}
	if answer, text := d.ask("GET", "/past?at=1&until=2", "", nil); answer.StatusCode != 502 ||
		!strings.Contains(text, "nothing is kept") {
		t.Errorf("where nothing is kept: %s %s", answer.Status, text)
	}
	s.parts = []*api.PastPart{{SinceUnixMs: 7}, {Lines: []byte("{\"now\":1}\n")}, nil}
	if _, text := d.ask("GET", "/past?at=1&until=2", "", nil); json.Valid([]byte(text)) {
		t.Errorf("an answer that broke off is %s", text)
	}
}

// TestPageIsSmall checks the compressed size of all files of the page.
func TestPageIsSmall(t *testing.T) {
	const most = 60 << 10
	var size bytes.Buffer
	for _, name := range []string{"index.html", "style.css", "icon.svg"} {
		compress(t, &size, pageFile(name))
	}
	compress(t, &size, bundle("app.js"))
	compress(t, &size, bundle("worker.js"))
	if size.Len() > most {
		t.Errorf("the page has %d bytes, more than %d", size.Len(), most)
	}
	t.Logf("%d bytes", size.Len())
}

func compress(t *testing.T, to *bytes.Buffer, text []byte) {
	out := gzip.NewWriter(to)
	if _, err := out.Write(text); err != nil || len(text) == 0 {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPastText checks that the timeline contains the same fields of a job and a node as pages, and no private data.
// It omits the reasons of waiting jobs, which change often, and contains those of finished jobs.
func TestPastText(t *testing.T) {
	waiting := confidential()
	waiting.Phase, waiting.Reason, waiting.Group = messages.PhaseQueued, "the room is small", 7
	ended := confidential()
	ended.Record.State = messages.JobState_JOB_STATE_FAILED
	for want, e := range map[string]*messages.Event{
		"job/j1 queued":        {Job: waiting},
		"job/j1 over":          {Job: ended},
		`box/n1 ["gone","n1"]`: {Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n1"}}, Hidden: true},
		`box/n1 "id":"n1"`:     {Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n1"}}},
		" ":                    {Synced: true},
	} {
		key, text, over := PastText(e)
		wantKey, has, _ := strings.Cut(want, " ")
		if key != wantKey || !strings.Contains(string(text), has) || over != (e.Hidden || e.Job == ended) {
			t.Errorf("%s: %s %s %v", want, key, text, over)
		}
		for _, not := range []string{"hush", "the room is small", `"group"`} {
			if strings.Contains(string(text), not) {
				t.Errorf("%s has %s", text, not)
			}
		}
	}
}
