//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/server/metrics/leading"
	"github.com/yi-json/synapse/server/web"
	"github.com/yi-json/synapse/topology"
)

// This file checks that the usage of queues is the same in `get queues`, `describe queue`, the metrics and the web
// UI. sim.TestUsageAgrees checks the planner.

// usageOf is the usage of one queue in a form to which all outputs can be converted.
type usageOf struct{ use, running, waiting int64 }

var drawnQueues = &messages.Queues{Default: "rest", Queues: []*messages.QueueSpec{
	{Name: "lab"}, {Name: "nlp", Parent: "lab"}, {Name: "vision", Parent: "lab"}, {Name: "rest"},
}}

// TestUsageIsTheSameEverywhere draws jobs in all phases, including arrays and elements, and compares all outputs.
// The expected values are counted by another rule, from how each job was drawn.
func TestUsageIsTheSameEverywhere(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := host.New(host.NewLog(t.Output(), false))
		p := &actors.Ports{
			System: h.System(), Host: h, Clock: h.Clock(), Log: actors.NoLog{}, Constants: actors.DefaultConstants(),
		}
		at, err := h.System().Root.SpawnNamed(p.Props(actors.KindMirror, func() actor.Actor { return mirror.New(p, 1, nil) }),
			"mirror")
		if err != nil {
			t.Fatal(err)
		}
		h.System().Root.Send(at, mirror.QueuesShown{Record: &messages.QueuesRecord{Revision: 3, Queues: drawnQueues}})
		want := map[string]usageOf{}
		for i := range 60 {
			h.System().Root.Send(at, mirror.JobShown{Status: drawnJob(r, i, want)})
		}
		ask := func(m any) any {
			got, err := h.Ask(t.Context(), at, m)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		f := startFake(t)
		f.queues = ask(&messages.GetQueues{}).(*messages.GetQueuesReply)
		census := ask(mirror.CountAll{}).(*mirror.Census)
		for where, got := range map[string]map[string]usageOf{
			"get queues": shownTable(t, f), "describe queue": shownQueues(t, f), "metrics": scraped(t, census),
			"web UI": onPage(t, f.queues),
		} {
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d: %s says %v, want %v", seed, where, got, want)
			}
		}
	}
}

// drawnJob returns a job in a random phase, and adds it to the usage of its queue and the queue's ancestors.
func drawnJob(r *rand.Rand, i int, want map[string]usageOf) *messages.JobStatus {
	names := []string{"lab", "nlp", "vision", "rest", "", "old"}
	queue := names[r.IntN(len(names))]
	gpus := int64(r.IntN(9)) * 500
	rec := &messages.JobRecord{
		Id: fmt.Sprintf("j%02d", i), Owner: &messages.Principal{Name: "ann"}, SubmittedUnixMs: 1,
		Spec: &messages.JobSpec{Queue: queue, Gang: &messages.GangSpec{ReplicasMin: 2},
			Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: gpus}},
	}
	s := &messages.JobStatus{Record: rec, Phase: messages.Phases[r.IntN(len(messages.Phases))]}
	waits, runs := false, false
	switch s.Phase {
	case messages.PhaseQueued:
		waits = true
	case messages.PhaseReserving, messages.PhaseDeciding, messages.PhaseStarting, messages.PhaseRunning:
		runs = true
	case messages.PhaseStopping: // the end of its attempt is on disk
		token := messages.ToToken(topology.Token{Epoch: 1, Counter: 1})
		s.Attempt = &messages.AttemptRecord{Token: token, End: &messages.End{}}
	case messages.PhaseSucceeded:
		rec.State = messages.JobState_JOB_STATE_SUCCEEDED
	}
	switch i % 5 {
	case 0: // the record of an array
		rec.Spec.Array, waits, runs = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: 9}}}, false, false
	case 1:
		rec.Spec.Element = &messages.Element{Array: "j00", Index: int32(i)}
	}
	above := map[string][]string{"nlp": {"nlp", "lab"}, "vision": {"vision", "lab"}, "": {"rest"}}[queue]
	if above == nil {
		above = []string{queue}
	}
	for _, name := range above {
		u := want[name]
		if runs {
			u.use, u.running = u.use+2*gpus, u.running+1
		}
		if waits {
			u.waiting++
		}
		if want[name] = u; u == (usageOf{}) {
			delete(want, name)
		}
	}
	return s
}

// put records the usage of a queue, unless it is zero.
func put(to map[string]usageOf, name string, u usageOf) {
	if u != (usageOf{}) {
		to[name] = u
	}
}

func thousandths(text string) (n int64) {
	var f float64
	_, _ = fmt.Sscan(text, &f)
	return int64(f*1000 + 0.5)
}

// shownTable returns the usage in `get queues`.
func shownTable(t *testing.T, f *fake) map[string]usageOf {
	all := map[string]usageOf{}
	lines := strings.Split(strings.TrimSpace(cli(f.address, "get", "queues", "-o", "wide").out), "\n")
	columns := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		var u usageOf
		cells := strings.Fields(line)
		for i, c := range columns[:min(len(columns), len(cells))] {
			n := int64(0)
			_, _ = fmt.Sscan(cells[i], &n)
			switch c {
			case "USE":
				u.use = thousandths(cells[i])
			case "WAITING":
				u.waiting = n
			case "RUNNING":
				u.running = n
			}
		}
		put(all, cells[0], u)
	}
	return all
}

// shownQueues returns the usage in `describe queue`.
func shownQueues(t *testing.T, f *fake) map[string]usageOf {
	all := map[string]usageOf{}
	for _, name := range []string{"lab", "nlp", "vision", "rest", "old"} {
		var u usageOf
		for line := range strings.Lines(cli(f.address, "describe", "queue", name).out) {
			key, rest, _ := strings.Cut(line, " ")
			switch strings.TrimSuffix(key, ":") {
			case "Use":
				u.use = thousandths(strings.TrimPrefix(strings.TrimSpace(rest), "gpu "))
			case "Jobs":
				_, _ = fmt.Sscanf(strings.TrimSpace(rest), "%d running, %d waiting", &u.running, &u.waiting)
			}
		}
		put(all, name, u)
	}
	return all
}

// scraped returns the usage in the metrics. They count each queue separately, so the descendants are added here.
func scraped(t *testing.T, c *mirror.Census) map[string]usageOf {
	var text strings.Builder
	source := &leading.Source{
		Epoch:  func() uint64 { return 1 },
		Census: func(context.Context) (*mirror.Census, error) { return c, nil },
	}
	if err := metrics.Text(metrics.Registry(source), &text); err != nil {
		t.Fatal(err)
	}
	sums := map[string]usageOf{}
	for line := range strings.Lines(text.String()) {
		name, rest, ok := strings.Cut(line, `{queue="`)
		queue, value, _ := strings.Cut(rest, `"} `)
		if !ok {
			continue
		}
		for _, above := range append([]string{queue}, map[string][]string{"nlp": {"lab"}, "vision": {"lab"}}[queue]...) {
			u := sums[above]
			switch name {
			case "synapse_queue_gpus":
				u.use += thousandths(value)
			case "synapse_queue_jobs_running":
				u.running += thousandths(value) / 1000
			case "synapse_queue_jobs_waiting":
				u.waiting += thousandths(value) / 1000
			}
			sums[above] = u
		}
	}
	all := map[string]usageOf{}
	for name, u := range sums {
		put(all, name, u)
	}
	return all
}

// answering is a fake scheduler with these queues.
type answering struct {
	api.SynapseClient
	queues *messages.GetQueuesReply
}

func (a answering) GetQueues(context.Context, *messages.GetQueues, ...grpc.CallOption) (
	*messages.GetQueuesReply, error) {
	return a.queues, nil
}

// onPage returns the usage in the web UI's data.
func onPage(t *testing.T, reply *messages.GetQueuesReply) map[string]usageOf {
	page := web.New(web.Options{API: answering{queues: reply}, Open: true, Answers: func(string) bool { return true }})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/queues", nil)
	page.ServeHTTP(w, r)
	var got struct {
		Usage []struct {
			Queue                 string
			Use, Running, Waiting int64
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	all := map[string]usageOf{}
	for _, u := range got.Usage {
		put(all, u.Queue, usageOf{u.Use, u.Running, u.Waiting})
	}
	return all
}
