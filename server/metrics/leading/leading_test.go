package leading

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// TestStandsBy checks that a standby scheduler reports that it does not lead, without any metric of the cluster. A
// leader whose Mirror does not answer reports this too.
func TestStandsBy(t *testing.T) {
	for _, c := range []struct {
		err   error
		leads int
	}{{nil, 0}, {errors.New("no answer"), 1}} {
		var text strings.Builder
		s := &Source{
			Epoch:  func() uint64 { return 0 },
			Census: func(context.Context) (*mirror.Census, error) { return nil, c.err },
		}
		if err := metrics.Text(metrics.Registry(s), &text); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{fmt.Sprintf("synapse_leader %d\n", c.leads), "synapse_cluster_metrics_up 0\n"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%v: there is no %s", c.err, want)
			}
		}
		if strings.Contains(text.String(), "synapse_jobs") {
			t.Errorf("%v: it counts jobs", c.err)
		}
	}
}

// TestRestNeverShrinks checks that the sum of the others does not decrease when an owner joins the largest ones.
func TestRestNeverShrinks(t *testing.T) {
	s := &Source{}
	for _, c := range []struct{ value, want float64 }{{5, 5}, {9, 9}, {8, 9}, {10, 10}} {
		if got := s.grown(ownerSpent, c.value); got != c.want {
			t.Errorf("%v: %v, want %v", c.value, got, c.want)
		}
	}
	if got := s.grown(queueSpent, 1); got != 1 {
		t.Errorf("another family has %v", got)
	}
}

// large returns the Source of a cluster with this many nodes, running jobs, waiting jobs and owners.
func large(tb testing.TB, n int) *Source {
	tb.Helper()
	h := host.New(host.NewLog(tb.Output(), false))
	p := &actors.Ports{
		System: h.System(), Host: h, Clock: h.Clock(), Log: actors.NoLog{}, Constants: actors.DefaultConstants(),
	}
	at, err := h.System().Root.SpawnNamed(p.Props(actors.KindMirror, func() actor.Actor {
		return mirror.New(p, 1, []string{"zone", "block", "rack"})
	}), "mirror")
	if err != nil {
		tb.Fatal(err)
	}
	tell := func(m any) { h.System().Root.Send(at, m) }
	var rooms mirror.RoomsShown
	for i := range n {
		id := fmt.Sprintf("n%05d", i)
		place := []string{fmt.Sprint("z", i/2000), fmt.Sprint("b", i/200), fmt.Sprint("r", i/16)}
		a := &messages.Announcement{Total: &messages.Resources{MilliGpu: 8000}}
		for g := range 8 {
			a.Gpus = append(a.Gpus, &messages.Gpu{Id: fmt.Sprintf("GPU-%d-%d", i, g), Type: fmt.Sprint("type", i%40)})
		}
		tell(mirror.NodeShown{Status: &messages.NodeStatus{
			Phase: "up", Record: &messages.NodeRecord{Id: id, Announcement: a},
			Ledger: &messages.LedgerReport{Free: &messages.Resources{MilliGpu: 4000}},
		}})
		rooms.Machines = append(rooms.Machines, topology.Seen{
			ID: topology.NodeID(id), Free: topology.Capacity{WholeGPUs: 4},
			Machine: &topology.Machine{ID: topology.NodeID(id), Place: place, Total: topology.Resources{MilliGPU: 8000}},
		})
		rooms.Holders = append(rooms.Holders, nil)
	}
	tell(rooms)
	shown := mirror.WaitingShown{}
	for i := range n {
		spec := &messages.JobSpec{Queue: fmt.Sprint("q", i%300), Each: &messages.Resources{MilliGpu: 8000},
			Gang: &messages.GangSpec{ReplicasMin: 4}}
		s := &messages.JobStatus{Phase: messages.PhaseQueued, Record: &messages.JobRecord{
			Id: fmt.Sprintf("j%05d", i), Owner: &messages.Principal{Name: fmt.Sprint("o", i%1000)}, Spec: spec,
			State: messages.JobState_JOB_STATE_QUEUED, SubmittedUnixMs: 1,
		}}
		if i%2 == 0 {
			s.Phase, s.Attempt = messages.PhaseRunning, &messages.AttemptRecord{
				Token: messages.ToToken(topology.Token{Epoch: 1, Counter: uint64(i + 1)}), CommittedUnixMs: 1,
				Places: []*messages.Place{{Node: fmt.Sprintf("n%05d", i), Grant: &messages.Grant{Amount: spec.Each}}},
			}
		} else {
			group := policy.GroupID(i%50 + 1)
			shown.Groups = append(shown.Groups, mirror.GroupReason{
				Group: group, Reason: messages.WaitResources.Because("x"),
				Asked: policy.Question{Gang: topology.Gang{Replicas: 1, Each: topology.Resources{MilliGPU: 1000}}},
			})
			shown.Jobs = append(shown.Jobs, policy.Joined{
				Job: topology.JobID(s.Record.Id), Group: group, Turn: policy.Turn(s.Record.Id), Burst: uint64(i),
			})
		}
		tell(mirror.JobShown{Status: s})
	}
	tell(shown)
	return &Source{
		Epoch: func() uint64 { return 1 },
		Census: func(ctx context.Context) (*mirror.Census, error) {
			got, err := h.Ask(ctx, at, mirror.CountAll{})
			c, _ := got.(*mirror.Census)
			return c, err
		},
	}
}

// most limits the series of a scheduler, and slowest the time for a scrape of the largest cluster.
const (
	most    = 5000
	slowest = 200 * time.Millisecond
)

// TestLargeCluster checks that the number of series is limited for any cluster, and that a scrape is fast. The best
// of several tries counts, because other programs may slow a try.
func TestLargeCluster(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	from := metrics.Registry(large(t, n), metrics.Process{Host: host.New(host.NewLog(t.Output(), false))})
	best := time.Hour
	var text strings.Builder
	limit := pace.Until(30 * time.Second)
	for i := 0; i < 5 || best > slowest && time.Now().Before(limit); i++ {
		text.Reset()
		began := time.Now()
		if err := metrics.Text(from, &text); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	series := 0
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	t.Logf("%d machines and jobs: %d series, %d bytes, %s", n, series, text.Len(), best)
	if series > most || best > slowest {
		t.Errorf("%d series in %s, want %d in %s at most", series, best, most, slowest)
	}
	for _, want := range []string{
		fmt.Sprintf(`synapse_jobs_waiting{age="older",reason="Resources"} %d`, n/2),
		fmt.Sprintf(`synapse_nodes{phase="up"} %d`, n),
		`synapse_owner_gpus{owner="other"}`,
		`synapse_gpus{state="free",type="other"}`,
		fmt.Sprintf(`synapse_gpus_fragmented{level="rack"} %d`, 4*n),
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// BenchmarkScrape scrapes a cluster of 10,000 nodes and jobs, including the Mirror's work.
func BenchmarkScrape(b *testing.B) {
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	from := metrics.Registry(large(b, n))
	var text strings.Builder
	for b.Loop() {
		text.Reset()
		if err := metrics.Text(from, &text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(text.Len()), "bytes")
}
