package job

import (
	"maps"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the acknowledgements of checkpoints.

// countingHost keeps the counters of a Job.
type countingHost struct {
	leadertest.Host
	counts map[string]int64
}

func (h *countingHost) Count(name string, n int64) { h.counts[name] += n }

// TestIgnoredAcknowledgements checks that an acknowledgement of another request, of a rank on another node, or of a
// lower step than the last acknowledged one saves nothing and is counted.
func TestIgnoredAcknowledgements(t *testing.T) {
	spec := leadertest.OneGPU()
	spec.Checkpoint = &messages.CheckpointSpec{}
	j, att := countedJob(spec)
	host := &countingHost{counts: map[string]int64{}}
	j.p.Host, j.att, att.Saved = host, att, &messages.Saved{Step: 9, Request: 40}
	j.openRequest(ending{at: j.p.Clock.Now().Plus(time.Minute)}, "")
	clear(host.counts)
	open := j.saving.request
	var said []leadertest.Letter
	for i, c := range []struct {
		rank       int32
		node       topology.NodeID
		request    uint64
		step       int64
		other, low int64 // counted until then
		done       int64 // acknowledged step of the gang; 0: none
	}{
		{0, "n1", open - 1, 12, 1, 0, 0},
		{1, "n1", open, 12, 2, 0, 0},
		{0, "n1", open, 7, 2, 1, 0},
		{1, "n2", open, 7, 2, 2, 0},
		{0, "n1", open, 12, 2, 2, 0},
		{1, "n2", open + 1, 12, 3, 2, 0},
		{1, "n2", open, 12, 3, 2, 12},
	} {
		j.noteSaved(&leadertest.Context{Said: &said}, c.node, []*messages.RankSaved{
			{Rank: c.rank, Request: c.request, Steps: []int64{c.step}},
		})
		want := map[string]int64{CountIgnored + "other_request": c.other}
		if c.low > 0 {
			want[CountIgnored+"lower_step"] = c.low
		}
		if step, done := j.commonStep(); done != (c.done > 0) || step != c.done {
			t.Errorf("acknowledgement %d: the gang has saved step %d, %t", i, step, done)
		}
		if !maps.Equal(host.counts, want) {
			t.Errorf("acknowledgement %d: counted are %v", i, host.counts)
		}
	}
}
