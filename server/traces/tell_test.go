package traces

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// silent is an API whose watch sends nothing.
type silent struct{ api.SynapseClient }

type silentStream struct {
	grpc.ServerStreamingClient[messages.Event]
	ctx context.Context
}

func (silent) Watch(ctx context.Context, _ *messages.Watch, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[messages.Event], error) {
	return silentStream{ctx: ctx}, nil
}

func (s silentStream) Recv() (*messages.Event, error) {
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

// telling runs a Teller with a fake collector, until the expected lines and requests have appeared.
func telling(t *testing.T, phases int, answers func(n int64, w http.ResponseWriter),
	until func(asked int64, log string) bool) {
	t.Helper()
	var asked atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPost || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/json" {
			t.Errorf("asked %s %s (%s)", q.Method, q.URL, q.Header)
		}
		answers(asked.Add(1), w)
	}))
	defer collector.Close()
	var mu sync.Mutex
	var log strings.Builder
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	teller := New(Options{URL: collector.URL, Cluster: "c1", API: silent{}, WallMs: func() int64 { return 9000 },
		Log: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&log, format+"\n", args...)
		}})
	for range phases { // before it runs, so that the overflow is known
		teller.Passed(phase(first, 1, "reserving", "all reserved", false, time.Second))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { teller.Run(ctx); close(ended) }()
	for limit := pace.Until(time.Minute); !until(asked.Load(), said()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Errorf("asked %d times, and it said %q", asked.Load(), said())
			break
		}
	}
	cancel()
	<-ended
}

// TestCollectorIsAway checks that a temporary error is retried, a permanent one is not, and that rejected spans are
// logged.
func TestCollectorIsAway(t *testing.T) {
	telling(t, 1, func(n int64, w http.ResponseWriter) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, func(asked int64, log string) bool { return asked == 2 && log == "" })
	telling(t, 1, func(_ int64, w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		func(asked int64, log string) bool {
			return asked == 1 && strings.Contains(log, "1 spans are lost: the collector returned 404")
		})
	telling(t, 1, func(_ int64, w http.ResponseWriter) {
		fmt.Fprint(w, `{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}`)
	}, func(_ int64, log string) bool {
		return strings.Contains(log, `the collector rejected spans: "too old"`)
	})
}

// TestTooMuchIsLost checks that actors never wait for the Teller, and that an overflow is dropped and logged.
func TestTooMuchIsLost(t *testing.T) {
	telling(t, maxHeard+7, func(int64, http.ResponseWriter) {}, func(_ int64, log string) bool {
		return strings.Contains(log, "the collector is too slow: 7 spans are lost")
	})
}
