package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests that an OpenTelemetry collector gets the life of a gang, and that nothing is exported without a
// collector.

// tracesAsked is ExportTraceServiceRequest in JSON, as opentelemetry-proto defines it. Unknown fields are rejected, and
// so is a number with the wrong type.
type tracesAsked struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attributeAsked }
		ScopeSpans []struct {
			Scope struct{ Name, Version string }
			Spans []spanAsked
		}
	}
}

type attributeAsked struct {
	Key   string
	Value struct{ StringValue, IntValue string }
}

type spanAsked struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []attributeAsked
	Status                              struct {
		Message string
		Code    int
	}
}

// collector keeps the received spans by name.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans map[string]spanAsked
	wrong []string
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: map[string]spanAsked{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var all tracesAsked
		from := json.NewDecoder(q.Body)
		from.DisallowUnknownFields()
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := from.Decode(&all); err != nil || q.URL.Path != "/v1/traces" {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: %v", q.URL, err))
		}
		for _, r := range all.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, one := range s.Spans {
					c.spans[one.Name] = one
				}
			}
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(c.Close)
	return c
}

// has waits until a span has arrived, and returns all.
func (c *collector) has(t *testing.T, name string) map[string]spanAsked {
	t.Helper()
	for limit := pace.Until(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c.mu.Lock()
		_, there := c.spans[name]
		if there || time.Now().After(limit) {
			defer c.mu.Unlock()
			if len(c.wrong) > 0 || !there {
				t.Fatalf("got the spans %v but no %q; %q", c.spans, name, c.wrong)
			}
			return c.spans
		}
		c.mu.Unlock()
	}
}

var traceIDs = regexp.MustCompile(`^[0-9a-f]{32} [0-9a-f]{16}$`)

// TestTraces checks that a finished gang is one trace from its submit to its end, with consecutive phases. A scheduler
// without a collector must have sent no span.
func TestTraces(t *testing.T) {
	to := newCollector(t)
	c := newCluster(t, "--otlp", to.URL)
	c.node("n1", "r1")
	c.node("n2", "r1")
	spec := gang(2, 8, "sleep 0.2")
	spec.Name = "traced"
	id := c.submit(spec)
	c.await(id, "succeeded")
	spans := to.has(t, "job")
	var before int64
	for _, name := range []string{"wait", "reserve", "decide", "commit", "prepare", "start", "run", "attempt", "job"} {
		s, ok := spans[name]
		from, err1 := strconv.ParseInt(s.StartTimeUnixNano, 10, 64)
		until, err2 := strconv.ParseInt(s.EndTimeUnixNano, 10, 64)
		if !ok || err1 != nil || err2 != nil || from > until || s.Kind != 1 || s.Status.Code != 0 ||
			s.TraceID != spans["job"].TraceID || !traceIDs.MatchString(s.TraceID+" "+s.SpanID) {
			t.Errorf("%s is %+v", name, s)
		}
		above := spans["attempt"].SpanID
		if slices.Contains([]string{"wait", "attempt"}, name) {
			above = spans["job"].SpanID
		}
		if name == "job" {
			above = ""
		}
		if s.ParentSpanID != above {
			t.Errorf("%s is below %q, want %q", name, s.ParentSpanID, above)
		}
		// Two actors record the end of the last phase and the beginning of the run, and one of them may be
		// delayed.
		late := 2 * time.Millisecond
		if name == "run" {
			late = time.Minute
		}
		if name != "attempt" && name != "job" && from < before-int64(late) {
			t.Errorf("%s begins %s before the end of the previous phase", name, time.Duration(before-from))
		}
		before = until
	}
	if said := fmt.Sprint(spans["job"].Attributes); !strings.Contains(said, id) || !strings.Contains(said, "traced") ||
		strings.Contains(fmt.Sprint(spans), "sleep 0.2") {
		t.Errorf("the collector got of the job: %s", said)
	}
	if len(spans) != 9 {
		t.Errorf("unexpected %d spans: %v", len(spans), spans)
	}
}
