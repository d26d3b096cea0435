package metrics

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/yi-json/synapse/cluster/host"
)

// TestGreatest checks that the largest shares keep their names, that all others are one sum, and that nothing is
// lost or counted twice.
func TestGreatest(t *testing.T) {
	for _, c := range []struct {
		all  []Share
		n    int
		want string
	}{
		{nil, 2, "[]"},
		{[]Share{{"b", 1}, {"a", 1}}, 2, "[{a 1} {b 1}]"},
		{[]Share{{"b", 1}, {"a", 2}, {"c", 3}, {"d", 4}}, 2, "[{c 3} {d 4} {other 3}]"},
		{[]Share{{"b", 1}, {Rest, 9}, {"a", 2}}, 2, "[{a 2} {b 1} {other 9}]"},
		{[]Share{{"b", 1}, {Rest, 9}, {"a", 2}}, 1, "[{a 2} {other 10}]"},
	} {
		before := slices.Clone(c.all)
		if got := fmt.Sprint(Greatest(c.all, c.n)); got != c.want {
			t.Errorf("%v: %s, want %s", c.all, got, c.want)
		}
		if !slices.Equal(before, c.all) {
			t.Errorf("%v was changed", before)
		}
	}
}

// TestProcess checks that a scrape contains the counters and measurements of actors, under the names of their
// families.
func TestProcess(t *testing.T) {
	h := host.New(host.NewLog(t.Output(), false))
	h.Count("link.full", 3)
	h.Count("link.sent", 7)
	h.Count("refused.shortage", 2)
	h.Count("journal.batches", 5)
	h.Count("scheduler.quarantined", 1)
	h.Count("checkpoint.asked.time_limit", 4)
	h.Count("checkpoint.lost_ms.late", 1500)
	h.Took("coordinator.reserving", 3*time.Millisecond)
	h.Took("coordinator.reserving", 5*time.Millisecond)
	h.Took("coordinator.reserving", 400*24*time.Hour)
	h.Took("promise.late", time.Minute)
	h.Count("restart.class.user", 6)
	h.Count("restart.swapped", 2)
	h.Took("restart.in-place.all", 300*time.Millisecond)
	h.Took("nobody's", time.Minute)
	var text strings.Builder
	if err := Text(Registry(Process{Host: h, Version: "v\xff"}), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`synapse_build_info{version="v?"} 1`,
		`synapse_link_dropped_total{cause="full"} 3`,
		`synapse_link_messages_total{direction="sent"} 7`,
		`synapse_refusals_total{cause="insufficient_resources"} 2`,
		`synapse_journal_batches_total 5`,
		`synapse_checkpoint_requests_total{reason="time_limit"} 4`,
		`synapse_checkpoint_lost_seconds_total{result="late"} 1.5`,
		`synapse_events_total{event="scheduler.quarantined"} 1`,
		`synapse_attempt_phase_seconds_bucket{phase="reserving",le="0.0025"} 0`,
		`synapse_attempt_phase_seconds_bucket{phase="reserving",le="0.005"} 2`,
		`synapse_attempt_phase_seconds_bucket{phase="reserving",le="86400"} 2`,
		`synapse_attempt_phase_seconds_bucket{phase="reserving",le="+Inf"} 3`,
		`synapse_start_estimate_error_seconds_bucket{side="late",le="60"} 1`,
		`synapse_restarts_in_place_total{class="user"} 6`,
		`synapse_swapped_nodes_total 2`,
		`synapse_restart_in_place_seconds_bucket{step="all",le="0.5"} 1`,
		`go_goroutines `, `process_open_fds `,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %s", want)
		}
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

// countingSource counts its calls.
type countingSource struct{ asked atomic.Int64 }

func (*countingSource) Families() []*Family { return nil }
func (c *countingSource) Write(Page)        { c.asked.Add(1) }

// TestOnceASecond checks that the metrics are collected once per second, for any number of scrapes.
func TestOnceASecond(t *testing.T) {
	source := &countingSource{}
	k := &kept{from: Registry(source), now: func() time.Time { return time.Unix(100, 0) }}
	for range 5 {
		if _, err := k.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	if n := source.asked.Load(); n != 1 {
		t.Errorf("counted %d times", n)
	}
	k.now = func() time.Time { return time.Unix(101, 0) }
	_, _ = k.Gather()
	if n := source.asked.Load(); n != 2 {
		t.Errorf("a second later: counted %d times in all", n)
	}
	page := httptest.NewRecorder()
	Handler(prometheus.NewRegistry()).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if page.Code != 200 {
		t.Errorf("%d", page.Code)
	}
}
