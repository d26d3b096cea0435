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

// TestCourse checks that a run of any length has few steps, and that folding neither loses nor moves a count.
func TestCourse(t *testing.T) {
	for _, jumps := range []float64{0.3, 40, 5000} {
		c, at, sum, later := newSteps(), time.Duration(0), 0.0, 0.0
		for i := range uint64(4000) {
			to := at + time.Duration(jumps*sim.Chance(3, i)*1e9)
			was := record.Step{Used: sim.Chance(4, i), Waiting: sim.Chance(5, i), Gangs: 1, Near: 1}
			c.add(at, to, was)
			sum += was.Used * (to - at).Seconds()
			later += was.Used * (to - at).Seconds() * (to + at).Seconds() / 2
			at = to
		}
		means := c.means(at)
		if len(means) > record.MaxSteps || len(means) < record.MaxSteps/2 && c.width > time.Second {
			t.Errorf("%v: got %d steps of %s", jumps, len(means), c.width)
		}
		got, gotLater, counted := 0.0, 0.0, 0.0
		for i, s := range means {
			from := time.Duration(i) * c.width
			long := min(c.width, at-from).Seconds()
			got += s.Used * long
			gotLater += s.Used * long * (from.Seconds() + long/2)
			counted += s.Near * long
		}
		if math.Abs(got-sum) > 1e-6*sum || math.Abs(counted-at.Seconds()) > 1e-6*counted {
			t.Errorf("%v: %v was counted, but the steps sum to %v; of %s there are %v", jumps, sum, got, at, counted)
		}
		if math.Abs(gotLater/got-later/sum) > c.width.Seconds() {
			t.Errorf("%v: the step begins at %v, want %v", jumps, gotLater/got, later/sum)
		}
	}
}

// TestPicture checks a run whose results are known: of two nodes in two racks one is in use for 100 s, and a gang of
// both waits.
func TestPicture(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 8, Queue: "b"}, {Duration: 50 * time.Second, GPUs: 16, Queue: "a"},
		{Submit: 200 * time.Second, Duration: 10 * time.Second, GPUs: 4, Queue: "b"},
	}
	f, err := Run(record.Order{Jobs: jobs, Cluster: record.NewCluster([]int{1, 1}, 8), Policy: "fifo", Ref: true,
		Oracle: true}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	p := f.Picture
	if p.Step != 1 || len(p.Steps) != 210 || p.Submits != 200 {
		t.Fatalf("%d steps of %v, %v", len(p.Steps), p.Step, p.Submits)
	}
	for second, want := range map[int]record.Step{
		0: {Used: 0.5, Waiting: 1}, 99: {Used: 0.5, Waiting: 1},
		100: {Used: 1, Gangs: 1, Near: 1}, 149: {Used: 1, Gangs: 1, Near: 1},
		150: {}, 199: {}, 200: {Used: 0.25}, 209: {Used: 0.25},
	} {
		if got := p.Steps[second]; got != want {
			t.Errorf("step at second %d: got %+v, want %+v", second, got, want)
		}
	}
	want := "[{1 1 0 0 0 0 0}] [{a 1 100 100 100 100 100} {b 2 0 0 0 0 0}]"
	sizes := p.Sizes[:1]
	sizes[0].Name = "1"
	if got := fmt.Sprint(sizes, p.Queues); got != want {
		t.Errorf("waiting times: got %s, want %s", got, want)
	}
}

// TestPictureIsBounded checks that a hundred thousand jobs give no larger picture than a hundred.
func TestPictureIsBounded(t *testing.T) {
	r := &run{o: record.Order{Cluster: room}, jobs: make([]record.Job, 100_000), lives: make([]life, 100_000),
		tooBig: make([]bool, 100_000)}
	r.census = newCensus(newGround(room, false))
	for i := range r.jobs {
		at := time.Duration(i) * time.Minute
		r.jobs[i] = record.Job{Submit: at, Duration: time.Hour, GPUs: 1 + i%20, Queue: fmt.Sprint(i % 10)}
		r.lives[i] = life{started: at + time.Duration(i%977)*time.Second, ended: at + 2*time.Hour}
		r.census.waits(at, shapeOf(r.jobs[i]))
		r.ran = at
	}
	text, err := json.Marshal(r.picture())
	if err != nil || len(text) > 100_000 {
		t.Errorf("%v: the picture has %d bytes", err, len(text))
	}
}

// TestThinned checks that the selected estimates cover the range from the first to the last.
func TestThinned(t *testing.T) {
	for _, n := range []int{0, 1, record.MaxPromises, record.MaxPromises + 1, 7 * record.MaxPromises} {
		all := make([]record.Told, n)
		for i := range all {
			all[i].Told = float64(i)
		}
		some := thinned(all)
		if len(some) != min(n, record.MaxPromises) {
			t.Fatalf("of %d entries %d were selected", n, len(some))
		}
		for i, one := range some {
			if off := one.Told - float64(i*n/len(some)); off != 0 {
				t.Fatalf("of %d entries number %d deviates by %v", n, i, off)
			}
		}
	}
}
