package job

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// BenchmarkProgressHeard measures the other part of a report, besides the Mirror's (BenchmarkProgressShown): decode and
// check the heartbeat that carries it, and let the Job look for a hang. The node has 8 of the job's ranks. The share of
// a core is for one report of each of 1,000 jobs in 10 s.
func BenchmarkProgressHeard(b *testing.B) {
	j, clock, token := gangOfTwo()
	report := &messages.AttemptProgress{Token: token, Job: "j1", Ranks: 8, LeastStep: 9, MostStep: 9, Total: 1000,
		MilliRate: 500, SentNs: 1e12, Active: 8, OnTime: 8, Metrics: []*messages.Metric{{Name: "loss", Value: "2.1"}},
		Use: &messages.Use{Tasks: 8, Gpus: 8, GpuPercent: 700, MilliCpu: 9000}}
	for rank := range int32(8) {
		report.Paces = append(report.Paces, &messages.RankPace{Rank: rank, Step: 9, StepUs: 2_000_000})
	}
	beat, err := (&messages.Heartbeat{Origin: &messages.Origin{Node: "n1", MachineId: "m1",
		Incarnation: &messages.Incarnation{BootId: "b", StartedNs: 1}}, Epoch: 1, Seq: 7,
		Progress: []*messages.AttemptProgress{report}}).MarshalVT()
	if err != nil {
		b.Fatal(err)
	}
	ctx := &leadertest.Context{Said: new([]leadertest.Letter)}
	for b.Loop() {
		clock.At += 1e10
		m := &messages.Heartbeat{}
		if err := proto.Unmarshal(beat, m); err != nil {
			b.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			b.Fatal(err)
		}
		ctx.Hears = protocol.ProgressHeard{Node: "n1", Progress: m.Progress[0]}
		j.Receive(ctx)
	}
	if j.quiet.nodes["n1"].AttemptProgress == nil {
		b.Error("the job has not heard the report")
	}
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)*1000/10, "%core")
}
