package timeline

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// watched is a fake API whose watches send given events and then end.
type watched struct {
	api.SynapseClient
	grpc.ClientStream
	events []*messages.Event
}

func (w *watched) Watch(context.Context, *messages.Watch, ...grpc.CallOption) (
	grpc.ServerStreamingClient[messages.Event], error) {
	return w, nil
}

func (w *watched) Recv() (*messages.Event, error) {
	if len(w.events) == 0 {
		return nil, io.EOF
	}
	e := w.events[0]
	w.events = w.events[1:]
	return e, nil
}

// plain returns a readable text of an event.
func plain(e *messages.Event) (string, []byte, bool) {
	if id := e.GetNode().GetRecord().GetId(); id != "" {
		return "box/" + id, []byte(`["` + id + `"]`), e.GetHidden()
	}
	if j := e.GetJob(); j != nil {
		over := j.GetRecord().GetState().Terminal()
		return "job/" + j.GetRecord().GetId(), []byte(`["` + j.GetRecord().GetId() + `","` + j.GetPhase() + `"]`), over
	}
	return "", nil, false
}

type rig struct {
	*Keeper
	api  *watched
	wall int64
	said []string
}

func newRig(t *testing.T) *rig {
	r := &rig{api: &watched{}, wall: 1_000_000}
	k, err := NewKeeper(Options{Dir: t.TempDir(), Keep: DefaultFor, API: r.api, Text: plain,
		Count:  func(context.Context) *Sum { return &Sum{GPUs: map[string]int64{"used": 8000}} },
		WallMs: func() int64 { return r.wall },
		Log:    func(format string, args ...any) { r.said = append(r.said, format) }})
	if err != nil {
		t.Fatal(err)
	}
	r.Keeper = k
	return r
}

// watches runs one watch with these events.
func (r *rig) watches(t *testing.T, events ...*messages.Event) {
	r.api.events = events
	_ = r.watch(t.Context()) // the watch ended
}

func nodeEvent(id string) *messages.Event {
	return &messages.Event{Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: id}}}
}

func jobEvent(id, phase string, committed int64, state messages.JobState) *messages.Event {
	return &messages.Event{Job: &messages.JobStatus{Phase: phase, Record: &messages.JobRecord{Id: id, State: state,
		SubmittedUnixMs: 900_000, Spec: &messages.JobSpec{Gang: &messages.GangSpec{ReplicasMin: 2},
			Each: &messages.Resources{MilliGpu: 8000}}}, Attempt: &messages.AttemptRecord{Run: 1, CommittedUnixMs: committed}}}
}

var synced = &messages.Event{Synced: true}

const active, succeeded = messages.JobState_JOB_STATE_ACTIVE, messages.JobState_JOB_STATE_SUCCEEDED

func (r *rig) moments(t *testing.T, at, until int64) string {
	t.Helper()
	var all []string
	if _, err := r.Moments(at, until, func(line []byte) error {
		all = append(all, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// TestWatchAgain checks that things that a new watch no longer sends are ended. Jobs that finished before the first
// watch are omitted, and nothing is written before the initial state is complete.
func TestWatchAgain(t *testing.T) {
	r := newRig(t)
	r.watches(t, nodeEvent("n1"))
	r.write()
	if since := r.Since(); since != 0 {
		t.Errorf("it was written at %d before all had come", since)
	}
	r.watches(t, nodeEvent("n1"), nodeEvent("n2"), jobEvent("old", "succeeded", 1, succeeded), synced)
	r.write()
	r.wall += 10_000
	r.watches(t, nodeEvent("n2"), synced)
	r.write()
	want := `{"fresh":true,"synced":true,"now":1000000,"changes":[["n1"],["n2"]],"away":""}` + "\n" +
		`{"synced":true,"now":1010000,"changes":[["gone","n1"]]}`
	if got := r.moments(t, 1_000_000, 2_000_000); got != want {
		t.Errorf("it tells\n%s, not\n%s", got, want)
	}
	if got, want := r.moments(t, 1_010_000, 2_000_000),
		`{"fresh":true,"synced":true,"now":1010000,"changes":[["gone","n1"],["n2"]],"away":""}`; got != want {
		t.Errorf("it tells\n%s, not\n%s", got, want)
	}
}

// TestSums checks that each job is counted once, when its first attempt is committed. A full disk is logged once
// and does no damage.
func TestSums(t *testing.T) {
	r := newRig(t)
	r.watches(t, jobEvent("before", "running", 950_000, active), synced, jobEvent("a", "preparing", 1_060_000, active),
		jobEvent("a", "running", 1_060_000, active), jobEvent("a", "succeeded", 1_060_000, succeeded),
		jobEvent("b", "running", 1_080_000, active))
	for range 2 {
		r.sum(t.Context())
		r.wall += 60_000
	}
	dir := r.o.Dir
	r.o.Dir = dir + "/none"
	for range 2 {
		r.sum(t.Context())
	}
	if len(r.said) != 1 {
		t.Errorf("it was told %d times that nothing is written: %q", len(r.said), r.said)
	}
	r.o.Dir = dir
	r.wall += 86_400_000 // the next file
	r.sum(t.Context())
	var all []*Sum
	if err := ReadSums(dir, 1_000_000, 100_000_000, 120_000, func(s *Sum) error {
		all = append(all, s)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Of != 2 || all[1].Of != 1 || all[0].GPUs["used"] != 8000 {
		t.Fatalf("the sums are %+v", all)
	}
	if got, want := all[0].Waits[SizeOf(16_000)], (Wait{Jobs: 2, Ms: 340_000, Most: 180_000}); got != want {
		t.Errorf("they waited %+v, not %+v", got, want)
	}
	if n, err := files(dir, sumsSuffix); err != nil || len(n) != 2 {
		t.Errorf("there are %d files of sums: %v", len(n), err)
	}
	if _, err := os.Stat(dir + "/none"); err == nil {
		t.Error("a folder was made that was not there")
	}
}

// TestWatchMissedIt checks the counting of a job whose first attempt was committed before the first watch was
// complete, or between two watches. It is counted once, even if it has finished. A job that an earlier leader
// committed is not counted. Counted jobs are forgotten later.
func TestWatchMissedIt(t *testing.T) {
	r := newRig(t)
	waited := func(when string, want Wait) {
		t.Helper()
		if got := r.waits[SizeOf(16_000)]; got != want {
			t.Errorf("%s jobs have waited %+v, not %+v", when, got, want)
		}
	}
	earlier, a := jobEvent("earlier", "running", 999_000, active), jobEvent("a", "running", 1_001_000, active)
	r.watches(t, earlier, a) // and the watch failed
	waited("before all has come", Wait{Jobs: 1, Ms: 101_000, Most: 101_000})
	a, b := jobEvent("a", "succeeded", 1_001_000, succeeded), jobEvent("b", "running", 1_002_000, active)
	r.watches(t, earlier, a, b, synced)
	waited("after the second watch", Wait{Jobs: 2, Ms: 203_000, Most: 102_000})
	r.wall = 1_200_000
	r.sum(t.Context())
	b, c := jobEvent("b", "succeeded", 1_002_000, succeeded), jobEvent("c", "succeeded", 1_015_000, succeeded)
	r.watches(t, earlier, a, b, c, synced, c)
	waited("after the third", Wait{Jobs: 1, Ms: 115_000, Most: 115_000})
	r.follows = true // as during a watch
	r.sum(t.Context())
	r.take(c)
	if len(r.committed) != 0 || len(r.waits) != 0 {
		t.Errorf("%v are known still, and %v counts again", r.committed, r.waits)
	}
}

// TestSumsAreBounded checks that files that are too old are removed, and then the oldest until the limit is met.
func TestSumsAreBounded(t *testing.T) {
	day := sumsFile.Milliseconds()
	for what, c := range map[string]struct {
		sizes []int64 // of files for successive days; the last is being written
		left  int
	}{
		"little, of a year": {slices.Repeat([]int64{10}, 365), 32},
		"much":              {slices.Repeat([]int64{12 << 20}, 20), 8},
		"one":               {[]int64{10}, 1},
	} {
		dir := t.TempDir()
		for i, size := range c.sizes {
			path := filepath.Join(dir, fmt.Sprintf("%015d%s", int64(i)*day, sumsSuffix))
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteSum(dir, &Sum{AtMs: int64(len(c.sizes))*day - 1}); err != nil {
			t.Fatal(err)
		}
		if all, _ := files(dir, sumsSuffix); len(all) != c.left {
			t.Errorf("%s: %d files are left, not %d", what, len(all), c.left)
		}
	}
}

// TestSumOf checks that a queue includes its descendants, that every GPU has one state, and that rates are not
// scaled.
func TestSumOf(t *testing.T) {
	census := &mirror.Census{
		Stocks: []mirror.Stock{{Type: "A", Of: [mirror.StockStates]int64{mirror.StockUsed: 3000, mirror.StockFree: 1000}},
			{Type: "B", Of: [mirror.StockStates]int64{mirror.StockUsed: 500}}},
		Queues: []mirror.Share{{Name: "kid", Running: 2, Held: 1500, Waiting: 1, Wanted: 700}, {Name: "other", Held: 1}},
		Described: []*messages.QueueSpec{{Name: "top", Quota: []*messages.Amount{{Name: "gpu", Amount: 4000}}},
			{Name: "kid", Parent: "top"}},
	}
	census.Waiting[messages.WaitResources][0], census.Waiting[messages.WaitResources][2] = 1, 2
	s := SumOf(census)
	if s.GPUs["used"] != 3500 || s.GPUs["free"] != 1000 || s.Waiting["Resources"] != 3 {
		t.Errorf("the sum is %+v", s)
	}
	for _, name := range []string{"top", "kid"} {
		if q := s.Queues[name]; q.Use != 1500 || q.Asked != 700 || q.Running != 2 || q.Waiting != 1 {
			t.Errorf("%s is %+v", name, q)
		}
	}
	if q := s.Queues["top"].Quota; q == nil || *q != 4000 || s.Queues["other"].Use != 1 {
		t.Errorf("the queues are %+v", s.Queues)
	}
}

// TestMeasured checks that earlier measurements are not counted again.
func TestMeasured(t *testing.T) {
	h := host.New(host.NewLog(io.Discard, false))
	m := &Measured{Spans: h.Spans}
	h.Took(mirror.TookLate, time.Minute)
	h.Took(mirror.TookEarly, time.Hour)
	want := []Promises{{Jobs: 2, Late: 60_000, Early: 3_600_000, Near: 1}, {}, {Jobs: 1, Late: 1000, Near: 1}}
	var got []Promises
	for i := range want {
		if i == 2 {
			h.Took(mirror.TookLate, time.Second)
		}
		got = append(got, m.Since())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}
