package progress

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorded is a request of the Transformers callback in the middle of a resumed training: its estimate of the remaining
// time is 0.
const recorded = `{"trainerStatus": {"progressPercentage": 45, "estimatedRemainingSeconds": 0, "metrics": [` +
	`{"name": "current_step", "value": "2250"}, {"name": "total_steps", "value": "5000"}, ` +
	`{"name": "current_epoch", "value": "1.35"}, {"name": "loss", "value": "0.15"}], ` +
	`"lastUpdatedTime": "2026-06-12T03:00:00.123456+00:00"}}`

// inbox is a receiver and the reports that it passed on for the token "secret".
type inbox struct {
	*Receiver
	mu  sync.Mutex
	got []Report
}

func newInbox(t *testing.T) *inbox {
	r, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	b := &inbox{Receiver: r}
	r.Add(HashToken("secret"), func(r Report) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.got = append(b.got, r)
	})
	return b
}

// post sends a request as the protocol requires, and returns the answer.
func post(t *testing.T, method, url, token, body string) (code int, answer string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := (&http.Client{Timeout: 20 * time.Second}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}

// TestPosted checks that the answer to a recorded request repeats it, and that the report has its step, total and
// metrics, but not the estimate.
func TestPosted(t *testing.T) {
	b := newInbox(t)
	code, answer := post(t, "POST", b.URL(), "secret", recorded)
	var sent, echoed any
	if json.Unmarshal([]byte(recorded), &sent) != nil || json.Unmarshal([]byte(answer), &echoed) != nil {
		t.Fatal(answer)
	}
	if code != http.StatusOK || fmt.Sprint(sent) != fmt.Sprint(echoed) {
		t.Fatalf("%d %s", code, answer)
	}
	want := Report{Step: 2250, HasStep: true, Total: 5000, Metrics: []Metric{{"current_epoch", "1.35"}, {"loss", "0.15"}}}
	if len(b.got) != 1 || fmt.Sprint(b.got[0]) != fmt.Sprint(want) {
		t.Fatalf("it was passed on as %v", b.got)
	}
	if code, answer = post(t, "POST", b.URL(), "secret", "{}"); code != http.StatusOK || answer != "{}" {
		t.Fatalf("an empty body gives %d %s", code, answer)
	}
	post(t, "POST", b.URL(), "secret", `{"trainerStatus":{"progressPercentage":7}}`)
	if last := b.got[len(b.got)-1]; last.Step != 7 || last.Total != 100 || !last.HasStep {
		t.Fatalf("a percentage alone is passed on as %v", last)
	}
}

// TestPostRefused checks each error answer of the protocol, and that no report is passed on.
func TestPostRefused(t *testing.T) {
	b := newInbox(t)
	metric := `{"name":"n","value":"v"}`
	status := func(fields string) string { return `{"trainerStatus":{` + fields + `}}` }
	for name, k := range map[string]struct {
		method, url, token, body string
		code                     int
	}{
		"no token":       {"POST", b.URL(), "", recorded, 403},
		"another token":  {"POST", b.URL(), "other", recorded, 403},
		"another path":   {"POST", b.URL() + "/x", "secret", recorded, 404},
		"another method": {"GET", b.URL(), "secret", "", 404},
		"too large":      {"POST", b.URL(), "secret", `{"x":"` + strings.Repeat("x", maxBodyBytes) + `"}`, 413},
		"very large":     {"POST", b.URL(), "other", strings.Repeat("x", 3*maxBodyBytes), 403},
		"no JSON":        {"POST", b.URL(), "secret", "{", 422},
		"a list":         {"POST", b.URL(), "secret", "[]", 422},
		"percent":        {"POST", b.URL(), "secret", status(`"progressPercentage":101`), 422},
		"below":          {"POST", b.URL(), "secret", status(`"progressPercentage":-1`), 422},
		"left":           {"POST", b.URL(), "secret", status(`"estimatedRemainingSeconds":-1`), 422},
		"time":           {"POST", b.URL(), "secret", status(`"lastUpdatedTime":"noon"`), 422},
		"no name":        {"POST", b.URL(), "secret", status(`"metrics":[{"name":"","value":"v"}]`), 422},
		"long value": {"POST", b.URL(), "secret", status(`"metrics":[{"name":"n","value":"` +
			strings.Repeat("v", 65) + `"}]`), 422},
		"many metrics": {"POST", b.URL(), "secret",
			status(`"metrics":[` + strings.Repeat(metric+",", maxPosted) + metric + `]`), 422},
	} {
		code, answer := post(t, k.method, k.url, k.token, k.body)
		var status struct {
			Kind, APIVersion, Status, Message string
			Code                              int
		}
		if err := json.Unmarshal([]byte(answer), &status); err != nil {
			t.Fatalf("%s: %v: %s", name, err, answer)
		}
		if code != k.code || status.Code != k.code || status.Kind != "Status" || status.Message == "" {
			t.Errorf("%s: %d %s, want %d", name, code, answer, k.code)
		}
	}
	if len(b.got) > 0 {
		t.Errorf("it passed on %v", b.got)
	}
	b.Remove(HashToken("secret"))
	if code, _ := post(t, "POST", b.URL(), "secret", "{}"); code != 403 {
		t.Errorf("the token of a task that has ended gives %d", code)
	}
}

// TestPostBesideFlood checks that a task gets an answer while hundreds of connections send nothing or never end.
func TestPostBesideFlood(t *testing.T) {
	b := newInbox(t)
	for i := range 4 * maxConnections {
		c, err := net.Dial("tcp", b.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			fmt.Fprintf(c, "POST /progress HTTP/1.1\r\nX: %s", strings.Repeat("x", 2*maxHeaderBytes))
		}
	}
	began := time.Now()
	if code, _ := post(t, "POST", b.URL(), "secret", recorded); code != 200 || time.Since(began) > postPatience {
		t.Fatalf("%d after %v", code, time.Since(began))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.got) != 1 {
		t.Fatalf("it passed on %v", b.got)
	}
}
