package mirror

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestActivityCounted checks that each running job counts with one activity: idle if that is known for long, working if
// all of its GPUs are measured, and unknown otherwise.
func TestActivityCounted(t *testing.T) {
	for _, c := range []struct {
		name  string
		phase string
		use   *messages.Use
		want  string // empty: it does not count
	}{
		{"nothing is measured", messages.PhaseRunning, nil, "unknown"},
		{"both GPUs are busy", messages.PhaseRunning, &messages.Use{Tasks: 1, Gpus: 2, GpuPercent: 150}, "working"},
		{"one GPU is not measured", messages.PhaseRunning, &messages.Use{Tasks: 1, Gpus: 1, GpuPercent: 90}, "unknown"},
		{"idle for an hour", messages.PhaseRunning, &messages.Use{Tasks: 1, Gpus: 2, IdleMs: 3_600_000}, "inactive"},
		{"idle for a minute", messages.PhaseRunning, &messages.Use{Tasks: 1, Gpus: 2, IdleMs: 60_000}, "working"},
		{"it waits", messages.PhaseQueued, nil, ""},
	} {
		census := &Census{}
		census.countActivity(&messages.JobStatus{Phase: c.phase, Attempt: attemptOf(1, 1, 1000, 1000), Use: c.use,
			Stall: &messages.Stall{}, Progress: &messages.JobProgress{SlowRanks: 3}})
		jobs := 0
		for i, a := range census.Activity {
			jobs += a.Jobs
			if counts := a.Jobs == 1 && a.GPUs == 2000; counts != (ActivityWords[i] == c.want) {
				t.Errorf("%s: %s has %+v", c.name, ActivityWords[i], a)
			}
			if a.Busy != 0 && a.Busy != c.use.GetGpuPercent() {
				t.Errorf("%s: %d percent", c.name, a.Busy)
			}
		}
		running := c.want != ""
		if (jobs == 1) != running || (census.Slow == 1) != running || (census.Stalled == 1) != running {
			t.Errorf("%s: %+v", c.name, census)
		}
	}
}

// TestSuspectsCounted checks that the census counts running jobs with their use, and suspected nodes.
func TestSuspectsCounted(t *testing.T) {
	a := newAudience()
	a.says("job", JobShown{training(1)})
	for id, suspected := range map[string]bool{"n1": true, "n2": false} {
		a.says("scheduler", NodeShown{Status: &messages.NodeStatus{Phase: messages.NodeUp,
			Record: &messages.NodeRecord{Id: id}, Suspicion: &messages.Suspicion{Suspected: suspected}}})
	}
	c := ask(a.Mirror, CountAll{}).(*Census)
	if c.Suspected != 1 || c.Activity[2].Jobs != 1 {
		t.Errorf("%d suspected nodes, activity %+v", c.Suspected, c.Activity)
	}
}
