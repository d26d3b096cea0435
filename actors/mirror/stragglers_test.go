package mirror

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestSlowRank checks that a job shows its slow rank after 20 steps and one event says so, and that the next attempt
// begins without slow ranks.
func TestSlowRank(t *testing.T) {
	now := actors.Instant(1e12)
	a := newAudience()
	a.Mirror.p.Clock = moved{&now}
	four := func(s *messages.JobStatus) {
		s.Attempt.Places = nil
		for i := range int32(4) {
			s.Attempt.Places = append(s.Attempt.Places, &messages.Place{Rank: i, Node: string('a' + rune(i/2))})
		}
	}
	a.says("job", JobShown{training(1, four)})
	a.says("wants", &messages.Watch{Jobs: true})
	paces := func(step int64, us ...int64) {
		for i, node := range []topology.NodeID{"a", "b"} {
			shown := told(node, 1, step, step, 1000, 1000)
			for r := range int32(2) {
				rank := int32(2*i) + r
				shown.Progress[0].Paces = append(shown.Progress[0].Paces,
					&messages.RankPace{Rank: rank, Step: step, StepUs: us[rank]})
			}
			a.says("rack", shown)
		}
		now = now.Plus(paceEvery)
	}
	for step := range int64(30) {
		paces(step, 100_000, 100_000, 100_000, 140_000)
		slow := progressNow(a.Mirror).GetSlow()
		named := len(slow) == 1 && slow[0].Rank == 3 && slow[0].Node == "b" && slow[0].Percent == 140
		if named != (step > 20) {
			t.Fatalf("at step %d: %v", step, slow)
		}
	}
	list := ask(a.Mirror, &messages.ListJobs{}).(*messages.ListJobsReply).Jobs
	if list[0].GetProgress().GetSlowRanks() != 1 {
		t.Errorf("the list has %v", list[0].GetProgress())
	}
	events := 0
	for _, e := range a.told["wants"] {
		if strings.Contains(e.Text, "slow: rank 3 on b needs 1.40 times the median time") {
			events++
		}
	}
	if events != 1 {
		t.Errorf("%d events: %v", events, a.told["wants"])
	}
	now = now.Plus(time.Minute)
	a.says("job", JobShown{training(2, four)})
	if got := progressNow(a.Mirror); got != nil {
		t.Errorf("the next attempt begins with %v", got)
	}
}
