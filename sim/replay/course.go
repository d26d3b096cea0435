package replay

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// This file keeps the course of a run as sums over equal steps of time. The length of a run is unknown while it
// continues. When it exceeds the steps, pairs of steps are merged into steps of twice the length.

// steps lists the steps so far.
type steps struct {
	width time.Duration
	sums  []record.Step // integrals over each step, in seconds
}

func newSteps() *steps { return &steps{width: time.Second} }

// add counts a state from one time to another.
func (c *steps) add(from, to time.Duration, was record.Step) {
	for to > c.width*record.MaxSteps {
		c.fold()
	}
	for from < to {
		i := int(from / c.width)
		for i >= len(c.sums) {
			c.sums = append(c.sums, record.Step{})
		}
		until := min(to, time.Duration(i+1)*c.width)
		c.sums[i] = plus(c.sums[i], was, (until - from).Seconds())
		from = until
	}
}

// fold makes each step twice as long.
func (c *steps) fold() {
	c.width *= 2
	for i, sum := range c.sums {
		if i%2 == 0 {
			c.sums[i/2] = sum
		} else {
			c.sums[i/2] = plus(c.sums[i/2], sum, 1)
		}
	}
	c.sums = c.sums[:(len(c.sums)+1)/2]
}

func plus(a, b record.Step, times float64) record.Step {
	a.Used += b.Used * times
	a.Waiting += b.Waiting * times
	a.Gangs += b.Gangs * times
	a.Near += b.Near * times
	return a
}

// means returns the steps of a run of this length. The last step covers only the time that has passed.
func (c *steps) means(ran time.Duration) []record.Step {
	out := make([]record.Step, len(c.sums))
	for i, sum := range c.sums {
		if long := min(c.width, ran-time.Duration(i)*c.width).Seconds(); long > 0 {
			out[i] = plus(record.Step{}, sum, 1/long)
		}
	}
	return out
}

// picture returns the data of the run's charts.
func (r *run) picture() *record.Picture {
	c := r.census.course
	p := &record.Picture{Step: c.width.Seconds(), Steps: c.means(r.ran), Promises: r.seen.picture()}
	sizes, queues := map[string]*tally{}, map[string]*tally{}
	for i, j := range r.jobs {
		if l := &r.lives[i]; !r.tooBig[i] {
			p.Submits = j.Submit.Seconds()
			for _, t := range []*tally{of(sizes, classOf(j.GPUs)), of(queues, j.Queue)} {
				t.add(r.waited(i).Seconds(), 0, l.ended >= 0)
			}
		}
	}
	for _, class := range classes {
		p.Sizes = append(p.Sizes, spreadsOf(sizes, class.name)...)
	}
	for _, name := range sortedNames(queues) {
		p.Queues = append(p.Queues, spreadsOf(queues, name)...)
	}
	return p
}

// thinned returns at most MaxPromises entries, evenly selected.
func thinned(all []record.Told) []record.Told {
	n := min(len(all), record.MaxPromises)
	for i := range n {
		all[i] = all[i*len(all)/n]
	}
	return all[:n]
}

// spreadsOf returns the distribution of waiting times for a name, or nothing if none of its jobs has finished.
func spreadsOf(all map[string]*tally, name string) []record.Spread {
	t := all[name]
	if t == nil || len(t.waits) == 0 {
		return nil
	}
	slices.Sort(t.waits)
	n := len(t.waits)
	return []record.Spread{{Name: name, Jobs: n, Avg: mean(t.waits), P50: percentile(t.waits, 0.5),
		P90: percentile(t.waits, 0.9), P99: percentile(t.waits, 0.99), Max: t.waits[n-1]}}
}
