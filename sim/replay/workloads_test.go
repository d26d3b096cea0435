package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/sim/record"
)

// changed returns the jobs of workload, each changed by a function.
func changed(change func(i int, j *record.Job)) []record.Job {
	jobs := workload(11, 24)
	for i := range jobs {
		jobs[i].User, jobs[i].Queue = fmt.Sprint("user ", i%5), fmt.Sprint("queue ", i%2)
		jobs[i].Limit = jobs[i].Duration + time.Duration(100*sim.Chance(5, uint64(i)))*time.Second
		change(i, &jobs[i])
	}
	return jobs
}

// TestWorkloads checks records with missing or extreme values. No policy may divide by zero or leave a job unfinished,
// and idle GPU time must have its parts.
func TestWorkloads(t *testing.T) {
	for name, jobs := range map[string][]record.Job{ //order: each by itself
		"as they come": changed(func(int, *record.Job) {}),
		"nobody's":     changed(func(_ int, j *record.Job) { j.User, j.Queue = "", "" }),
		"no limits":    changed(func(_ int, j *record.Job) { j.Limit = 0 }),
		"bare":         changed(func(_ int, j *record.Job) { j.User, j.Queue, j.Limit = "", "", 0 }),
		"one owner":    changed(func(_ int, j *record.Job) { j.User, j.Queue = "anna", "all" }),
		"only long": changed(func(_ int, j *record.Job) {
			j.Duration *= 200
			j.Limit = j.Duration
		}),
		"only gangs": changed(func(i int, j *record.Job) { j.GPUs = 9 + i%48 }),
		// some start without an event
		"mostly gangs":   changed(func(i int, j *record.Job) { j.GPUs = 8 + i%24 }),
		"of all GPUs":    changed(func(_ int, j *record.Job) { j.GPUs = 56 }),
		"all at once":    changed(func(_ int, j *record.Job) { j.Submit = 0 }),
		"tiny":           changed(func(_ int, j *record.Job) { j.Duration, j.Limit = 1, 1 }),
		"low limits":     changed(func(_ int, j *record.Job) { j.Limit = time.Second }),
		"by importance":  changed(func(i int, j *record.Job) { j.Priority = int32(i%7) - 3 }),
		"days apart":     changed(func(i int, j *record.Job) { j.Submit = time.Duration(i) * day }),
		"one":            changed(func(int, *record.Job) {})[:1],
		"none":           nil,
		"none that fits": changed(func(_ int, j *record.Job) { j.GPUs = 57 }),
	} {
		for _, policy := range record.Policies() {
			o := record.Order{Jobs: jobs, Cluster: room, Policy: policy, Oracle: true}
			f, err := Run(o, Watch{})
			if err != nil || f.Unfinished != 0 || f.Jobs+f.TooBig != len(jobs) {
				t.Fatalf("%s, %s: %v, %+v", name, policy, err, f)
			}
			if _, err := json.Marshal(f); err != nil { // this fails for infinite or undefined results
				t.Errorf("%s, %s: %v", name, policy, err)
			}
			if f.IdleFitParts == nil == (policy == record.Synapse) && f.JCTAvg > 0 {
				t.Errorf("%s, %s: parts are %v", name, policy, f.IdleFitParts)
			}
			if p := f.IdleFitParts; p != nil {
				named := p.Headroom + p.Locality + p.KeptRoom + p.Quota
				if math.Abs(named-f.IdleFit) > 0.01*f.IdleFit {
					t.Errorf("%s: the parts of %v are %+v", name, f.IdleFit, *p)
				}
			}
		}
	}
}
