package replay

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/sim/record"
)

// endless returns jobs of three queues. Each queue submits a quarter more than its share of the cluster for a week. The
// gangs have 1 to 64 GPUs, run from 10 minutes to 4 hours, and are drawn equally.
func endless(names []string, weights []int64) []record.Job {
	var jobs []record.Job
	const week, first = 7 * day, 40
	for q, name := range names {
		n := 200 * int(weights[q])
		for i := range n {
			chance := func(of uint64) float64 { return sim.Chance(of, uint64(3*i+q)) }
			gpus := 1 + int(chance(1)*64)
			if gpus > 8 {
				gpus = (gpus + 7) / 8 * 8
			}
			runs := 10*time.Minute + time.Duration(chance(2)*float64(230*time.Minute)).Truncate(time.Second)
			jobs = append(jobs, record.Job{
				Submit: week * time.Duration(max(i-first, 0)) / time.Duration(n), Duration: runs, Limit: 4 * time.Hour,
				GPUs: gpus, User: name, Queue: name,
			})
		}
	}
	slices.SortStableFunc(jobs, func(a, b record.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs
}

// TestSharesByWeight checks that three queues with endless work get the GPUs by their weights over a half-life, within
// 5%.
func TestSharesByWeight(t *testing.T) {
	names, weights := []string{"q1", "q2", "q5"}, []int64{1, 2, 5}
	queues := &share.Queues{}
	for i, name := range names {
		queues.Queues = append(queues.Queues, share.QueueSpec{Name: name, Weight: &weights[i]})
	}
	o := record.Order{
		Jobs: endless(names, weights), Cluster: record.NewCluster(record.InRacks(64, 0), 8), Policy: record.Synapse,
		Seed:  1,
		Until: 7 * day, Queues: queues,
	}
	r, err := replayed(o, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	got, sum := map[string]float64{}, 0.0
	for i, l := range r.lives {
		if l.started < 0 {
			continue
		}
		end := l.ended
		if end < 0 {
			end = r.ran
		}
		hours := float64(r.jobs[i].GPUs) * (end - l.started).Hours()
		got[r.jobs[i].Queue] += hours
		sum += hours
	}
	said := ""
	for i, name := range names {
		want := sum * float64(weights[i]) / 8
		said += fmt.Sprintf("%s %.0f of %.0f GPU-hours; ", name, got[name], want)
		if got[name] < 0.95*want || got[name] > 1.05*want {
			t.Errorf("%s got %.0f GPU-hours and should have %.0f", name, got[name], want)
		}
	}
	t.Logf("%s%.0f%% of the GPUs", said, 100*sum/(512*7*24))
	if sum < 0.8*512*7*24 {
		t.Errorf("only %.0f GPU-hours were used", sum)
	}
}

// TestQueuesInReplay checks that both of Synapse's own policies use queues, and that a job of an unknown queue is in
// the default queue.
func TestQueuesInReplay(t *testing.T) {
	none := share.Amounts{{Name: share.AmountGPU, Amount: 8000}}
	queues := &share.Queues{Default: "rest", Queues: []share.QueueSpec{{Name: "few", Limit: none}, {Name: "rest"}}}
	var jobs []record.Job
	for i := range 6 {
		jobs = append(jobs, record.Job{Duration: time.Hour, Limit: time.Hour, GPUs: 8, Queue: []string{"few", "other"}[i%2]})
	}
	for _, name := range []string{record.Synapse, record.InOrder} {
		r, err := replayed(record.Order{
			Jobs: jobs, Cluster: record.NewCluster(record.InRacks(8, 0), 8), Policy: name, Seed: 1, Queues: queues,
		}, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.lives {
			if waited, want := r.lives[i].started.Round(time.Minute), time.Duration((i+1)%2*(i/2))*time.Hour; waited != want {
				t.Errorf("%s: job %d of %s waited %s, want %s", name, i, jobs[i].Queue, waited, want)
			}
		}
	}
}
