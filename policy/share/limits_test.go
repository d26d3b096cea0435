package share

// This file tests limits and quotas against an independent count.

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// drawnJob is a job in a random tree of queues.
type drawnJob struct {
	queue, owner string
	gpus         int64
	nodes        []topology.NodeID
	fixed        bool
}

// drawnTree is a tree of three queues with random limits; negative: none.
type drawnTree struct {
	chance *rand.Rand
	specs  []QueueSpec
	jobs   map[topology.JobID]*drawnJob
}

func (d *drawnTree) bound(most int64) *int64 {
	if n := d.chance.Int63n(most + 2); n <= most {
		return &n
	}
	return nil
}

func drawTree(seed int64) *drawnTree {
	d := &drawnTree{chance: rand.New(rand.NewSource(seed)), jobs: map[topology.JobID]*drawnJob{}}
	for _, name := range []string{"all", "a", "b"} {
		q := QueueSpec{Name: name}
		if name != "all" {
			q.Parent = "all"
		}
		amounts := func(most int64) Amounts {
			if n := d.bound(most); n != nil {
				return Amounts{{Name: []string{AmountGPU, "h100"}[d.chance.Intn(2)], Amount: *n * 1000}}
			}
			return nil
		}
		q.Limit, q.Quota, q.Owner.Amounts = amounts(6), amounts(6), amounts(4)
		q.Owner.Machines, q.Owner.Running = d.bound(3), d.bound(3)
		d.specs = append(d.specs, q)
	}
	return d
}

// within returns the queues in which a job counts.
func within(queue string) []string {
	if queue == "all" {
		return []string{"all"}
	}
	return []string{queue, "all"}
}

// has counts the usage of a queue, for one owner or all, and for jobs that must not be stopped or all.
func (d *drawnTree) has(queue, owner string, fixed bool) (gpus, running int64, on map[topology.NodeID]bool) {
	on = map[topology.NodeID]bool{}
	for _, x := range d.jobs {
		if slices.Contains(within(x.queue), queue) && (owner == "" || x.owner == owner) && (!fixed || x.fixed) {
			gpus, running = gpus+x.gpus, running+1
			for _, n := range x.nodes {
				on[n] = true
			}
		}
	}
	return gpus, running, on
}

// over returns the limit that a job would exceed as text: queue and amount, or "".
func (d *drawnTree) over(x *drawnJob) string {
	tooMuch := func(amounts Amounts, has int64) bool {
		return len(amounts) > 0 && x.gpus > 0 && has+x.gpus > amounts[0].Amount
	}
	for _, name := range within(x.queue) {
		q := &d.specs[slices.Index([]string{"all", "a", "b"}, name)]
		gpus, _, _ := d.has(name, "", false)
		mine, running, on := d.has(name, x.owner, false)
		for _, n := range x.nodes {
			on[n] = true
		}
		switch {
		case tooMuch(q.Limit, gpus):
			return name + " " + q.Limit[0].Name
		case tooMuch(q.Owner.Amounts, mine):
			return name + " " + x.owner + " " + q.Owner.Amounts[0].Name
		case q.Owner.Running != nil && running >= *q.Owner.Running:
			return name + " " + x.owner + " running jobs"
		case q.Owner.Machines != nil && int64(len(on)) > *q.Owner.Machines:
			return name + " " + x.owner + " machines"
		}
	}
	return ""
}

// beyond returns the quota that a job which must not be stopped would exceed, in the same form.
func (d *drawnTree) beyond(x *drawnJob) string {
	assured := false
	for _, name := range within(x.queue) {
		q := &d.specs[slices.Index([]string{"all", "a", "b"}, name)]
		gpus, _, _ := d.has(name, "", true)
		if assured = assured || len(q.Quota) > 0; len(q.Quota) > 0 && x.gpus > 0 && gpus+x.gpus > q.Quota[0].Amount {
			return name + " " + q.Quota[0].Name
		}
	}
	if !assured {
		return x.queue + " "
	}
	return ""
}

// TestDrawnLimits compares the counts and the exceeded limits of the tree with an independent count.
func TestDrawnLimits(t *testing.T) {
	words := func(o *Over) string {
		switch {
		case o == nil:
			return ""
		case o.Owner != "":
			return o.Queue + " " + o.Owner + " " + o.What
		}
		return o.Queue + " " + o.What
	}
	for seed := range int64(400) {
		d := drawTree(seed)
		s := New(&Queues{Queues: d.specs}, Expected)
		for i := range 30 {
			x := &drawnJob{
				queue: []string{"a", "b", "all"}[d.chance.Intn(3)], owner: []string{"ann", "bob"}[d.chance.Intn(2)],
				gpus: 1000 * d.chance.Int63n(3), fixed: d.chance.Intn(3) == 0,
			}
			x.nodes = append(x.nodes, []topology.NodeID{"n1", "n2", "n3"}[d.chance.Intn(3):]...)
			id := topology.JobID(fmt.Sprint(i % 6))
			if s.Give(id, 0, false); d.jobs[id] != nil {
				delete(d.jobs, id)
			}
			total := topology.Resources{MilliGPU: x.gpus, MilliCPU: 5}
			leaf, needs := s.Leaf(x.queue, x.owner), s.Needs("h100", total)
			if got, want := words(s.Over(leaf, x.owner, needs, x.nodes)), d.over(x); got != want {
				t.Fatalf("seed %d: %+v of %s is over %q, want %q", seed, *x, x.owner, got, want)
			}
			if got, want := words(s.Beyond(leaf, needs)), d.beyond(x); got != want {
				t.Fatalf("seed %d: %+v is beyond %q, want %q", seed, *x, got, want)
			}
			if d.chance.Intn(3) > 0 {
				d.jobs[id] = x
				s.Take(id, &Hold{
					Queue: x.queue, Owner: x.owner, Pool: "h100", Total: total, Size: x.gpus, Nodes: x.nodes, Fixed: x.fixed,
				})
			}
			if d.chance.Intn(5) == 0 { // the same queues are configured again
				next := New(&Queues{Queues: d.specs}, Expected)
				next.Follow(s, 0)
				s = next
			}
			for _, name := range []string{"all", "a", "b"} {
				gpus, _, _ := d.has(name, "", false)
				fixed, _, _ := d.has(name, "", true)
				if h := s.named[name]; h.has[0] != gpus || h.fixed[0] != fixed {
					t.Fatalf("seed %d: %s has %v, %v of them fixed, want %d and %d", seed, name, h.has, h.fixed, gpus, fixed)
				}
				if h := s.Root; name == "all" && (h.has[0] != gpus || h.fixed[0] != fixed) {
					t.Fatalf("seed %d: all have %v, %v of them fixed, want %d and %d", seed, h.has, h.fixed, gpus, fixed)
				}
				if rest := len(s.named[name].owned); rest > 2 {
					t.Fatalf("seed %d: %d owners are known in %s", seed, rest, name)
				}
			}
		}
	}
}

// TestWithinQuota checks that usage up to the quota is within it, and any more is not. An amount that a job does not
// need is ignored.
func TestWithinQuota(t *testing.T) {
	for _, c := range []struct {
		has, needs, quota int64
		not, within       bool // no quota; the expected result
	}{
		{400, 600, 1000, false, true}, {400, 601, 1000, false, false}, {0, 1000, 1000, false, true},
		{0, 1, 0, false, false}, {0, 0, 0, false, true}, {2000, 0, 1000, false, true}, {2000, 1, 1000, false, false},
		{5, 5, -1, false, true}, {400, 600, 1000, true, false},
	} {
		for at := range 2 {
			h := &Branch{quota: []int64{-1, -1}, has: []int64{7, 7}, Assured: !c.not}
			needs := []int64{7, 7}
			h.quota[at], h.has[at], needs[at] = c.quota, c.has, c.needs
			if h.IsWithin(needs) != c.within {
				t.Errorf("%+v: within is %v", c, !c.within)
			}
			over := c.quota >= 0 && c.needs > 0 && c.has+c.needs > c.quota
			got := exceeded(h.quota, h.has, needs)
			if over != (got == at) || !over && got != -1 || h.Exceeds(needs) != over {
				t.Errorf("%+v: exceeded is %d, want %v at %d", c, got, over, at)
			}
		}
	}
}
