package main

import (
	"io"
	"strings"
	"testing"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// TestTop checks that without a terminal one page of unfinished jobs is printed, without control characters.
func TestTop(t *testing.T) {
	f := startFake(t)
	f.nodes = []*messages.NodeStatus{{
		Record: &messages.NodeRecord{
			Id: "n1", Announcement: &messages.Announcement{Total: &messages.Resources{MilliGpu: 8000}},
		},
		Phase: messages.NodeUp, Ledger: &messages.LedgerReport{Free: &messages.Resources{MilliGpu: 2000}},
	}}
	spec := &messages.JobSpec{
		Name: "x", Gang: &messages.GangSpec{ReplicasMin: 1}, Each: &messages.Resources{MilliGpu: 6000},
	}
	f.put(&messages.JobStatus{Phase: messages.PhaseRunning, Record: &messages.JobRecord{Id: "j1", Spec: spec}})
	f.put(&messages.JobStatus{Phase: messages.PhaseQueued, Record: &messages.JobRecord{Id: "j2", Spec: spec}})
	r := cli(f.address, "top")
	r.wants(t, 0, "6 of 8 in use, 2 free", "")
	r.wants(t, 0, "1 hold resources, 1 wait for 6 GPUs", "")
	if strings.Contains(r.out, "\x1b") || strings.Index(r.out, "j1") > strings.Index(r.out, "j2") {
		t.Errorf("it is for a terminal, or out of order: %q", r.out)
	}
	if asked := told[*messages.ListJobs](f); len(asked) == 0 || len(asked[0].Phases) != len(livePhases) {
		t.Errorf("it asks for %v", asked)
	}
	cli(f.address, "top", "--every", "10ms").wants(t, exit.Misuse, "", "--every 10ms: too short")
}

// TestTopQuits checks that q ends top, and that other keys do not.
func TestTopQuits(t *testing.T) {
	f := startFake(t)
	c, err := client.Dial(client.Config{Server: f.address})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"q", "Q", "\x03"} {
		keys, typed := io.Pipe()
		var out, errs lines
		a := newApp(keys, &out, &errs, func(string) (string, bool) { return "", false })
		ended := make(chan error, 1)
		go func() { ended <- a.topLive(t.Context(), c, time.Hour) }()
		await(t, "a page", func() bool { return strings.Contains(out.String(), restEmpty) })
		if _, err := typed.Write([]byte("x\n ")); err != nil || len(ended) > 0 {
			t.Fatalf("another key ends it (%v)", err)
		}
		if _, err := typed.Write([]byte(key)); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of the page", func() bool { return len(ended) > 0 })
		if err := <-ended; err != nil || !strings.HasSuffix(out.String(), firstPage) {
			t.Errorf("%q ends it with %v, and leaves %q", key, err, out.String())
		}
	}
}

// TestEventsSince checks that only events after a time are shown.
func TestEventsSince(t *testing.T) {
	f := startFake(t)
	now := time.Now().UnixMilli()
	for i, ago := range []time.Duration{3 * time.Hour, 30 * time.Minute, time.Minute} {
		f.events = append(f.events, &messages.Event{
			Seq: uint64(i + 1), AtUnixMs: now - ago.Milliseconds(), Text: "was " + ago.String() + " ago",
			Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n1"}},
		})
	}
	f.seq = 3
	if r := cli(f.address, "events", "--since", "1h"); r.code != 0 || strings.Count(r.out, "\n") != 2 ||
		strings.Contains(r.out, "3h0m0s") {
		t.Errorf("ended with %d: %s%s", r.code, r.out, r.err)
	}
	cli(f.address, "events", "--since", "soon").wants(t, exit.Misuse, "", `--since "soon": not a time`)
}
