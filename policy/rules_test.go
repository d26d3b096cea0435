package policy

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of what shares count, and of what a firm promise says, against counts of their own.

// TestWhatIsSaidOfAFirmPromise: it is said again when it is not as it was said to be, or when more slips were than were
// said; one more is said while something is lent on an estimate, and never more than there can be.
func TestWhatIsSaidOfAFirmPromise(t *testing.T) {
	for _, c := range []struct {
		slips, said, loans int
		unsaid             bool
		want               int // slips; below 0: nothing is said
	}{
		{0, 0, 0, false, -1}, {0, 0, 0, true, 0}, {0, 0, 1, false, 1}, {0, 1, 1, false, -1}, {1, 1, 0, false, -1},
		{1, 0, 0, false, 1}, {1, 1, 1, false, 2}, {2, 2, 1, false, -1}, {2, 1, 1, false, 2}, {0, 1, 0, true, 1},
		{2, 2, 3, true, 2},
	} {
		j := bare(100, estimate.Pool{Name: "p", Size: 8000})
		p := &promise{e: &entry{Waiting: Waiting{Job: "f"}}, bound: 150, firm: true}
		p.e.slips, p.e.loans, p.slips, p.unsaid = c.slips, make([]loan, c.loans), c.said, c.unsaid
		j.firm = []*promise{p}
		j.sayFirm()
		if c.want < 0 && len(j.d.Firm) > 0 || c.want >= 0 && (len(j.d.Firm) != 1 || j.d.Firm[0].Slips != c.want) {
			t.Errorf("%+v: said %+v", c, j.d.Firm)
		}
		if len(j.d.Firm) == 1 && j.d.Firm[0].Left != 50 {
			t.Errorf("%d are left until its bound", j.d.Firm[0].Left)
		}
		if j.d.Firm = nil; p.unsaid {
			t.Errorf("%+v: it is said, and unsaid", c)
		}
		if j.sayFirm(); len(j.d.Firm) > 0 {
			t.Errorf("%+v: it is said again: %+v", c, j.d.Firm)
		}
	}
	if left(topology.Never, 5) != topology.Never || left(5, 5) != 1 || left(7, 5) != 2 || left(3, 5) != 1 {
		t.Error("what is left until an instant is wrong")
	}
}

// TestBoundsOfAPromise: a bound only moves earlier, what people are told follows the limits, and what has no bound is
// kept for so long and no longer.
func TestBoundsOfAPromise(t *testing.T) {
	const never = topology.Never
	for _, c := range []struct {
		bound, limits, now int64
		blind, stops       bool
		latest             int64
	}{
		{bound: 10, limits: 10, now: 8, latest: 8}, {bound: 10, limits: 10, now: 12, latest: 12},
		{bound: never, limits: never, now: 9, latest: 9}, {bound: never, limits: never, now: never, latest: never},
		{bound: 10, limits: 10, now: never, latest: never}, {bound: 10, limits: 10, now: never, blind: true, latest: 10},
		{bound: never, limits: never, now: never, stops: true, latest: never},
	} {
		j := bare(1000, estimate.Pool{Name: "p", Size: 8000})
		p := &promise{e: &entry{}, bound: c.bound, limits: c.limits, firm: true, made: 500}
		p.blind = c.blind
		if c.stops {
			p.stops = []stop{{}}
		}
		p.limitedBy(c.now)
		kept := int64(never)
		if c.latest == never && !c.stops {
			kept = 500 + int64(j.settings.KeepMost)
		}
		if p.bound != min(c.bound, c.now) || p.latest() != c.latest || j.keptUntil(p) != kept ||
			p.unsaid != (c.bound == never && c.now != never) {
			t.Errorf("%+v: bound %d, latest %d, kept until %d, unsaid %v", c, p.bound, p.latest(), j.keptUntil(p), p.unsaid)
		}
	}
}

// TestStoppingBefore: those that are stopped for promises that were made before one, and for no later one.
func TestStoppingBefore(t *testing.T) {
	j := bare(0, estimate.Pool{Name: "p", Size: 8000})
	for order := range uint64(5) {
		p := &promise{e: &entry{}, firm: true, firmly: firmly{order: order}}
		p.e.Job = topology.JobID(fmt.Sprint("w", order))
		p.stops = []stop{{Victim: Victim{Job: topology.JobID(fmt.Sprint("v", order))}}}
		if order == 3 {
			j.away[p.e.Job] = p
		} else if order != 2 {
			j.firm = append(j.firm, p)
		}
	}
	for before, want := range []string{"[]", "[v0]", "[v0 v1]", "[v0 v1]", "[v0 v1 v3]", "[v0 v1 v4 v3]"} {
		if got := fmt.Sprint(j.Stopping(uint64(before))); got != want {
			t.Errorf("before %d: %s, want %s", before, got, want)
		}
	}
}

// TestLeftOnce: a place that a promise has left is kept once, however often it leaves it before that is on disk.
func TestLeftOnce(t *testing.T) {
	j := bare(0, estimate.Pool{Name: "p", Size: 8000})
	at := func(nodes ...topology.NodeID) (p topology.Placement) {
		for _, n := range nodes {
			p.Slots = append(p.Slots, topology.Slot{Node: n, Amount: topology.Resources{MilliGPU: 1000}})
		}
		return p
	}
	j.leave("w", at("n1", "n1", "n2"))
	j.leave("w", at("n1", "n3"))
	j.leave("w", at("n1", "n1", "n2"))
	j.leave("v", at("n9"))
	var got []topology.NodeID
	for _, s := range j.unwritten["w"] {
		got = append(got, s.Node)
	}
	if slices.Sort(got); fmt.Sprint(got) != "[n1 n1 n2 n3]" || len(j.unwritten["v"]) != 1 {
		t.Errorf("%v, %v", got, j.unwritten)
	}
}

// drawnJob is a job in a drawn tree of queues.
type drawnJob struct {
	queue, owner string
	gpus         int64
	nodes        []topology.NodeID
	fixed        bool
}

// drawnTree is a tree of three queues with drawn limits; below 0: there is none.
type drawnTree struct {
	chance *rand.Rand
	specs  []share.QueueSpec
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
		q := share.QueueSpec{Name: name}
		if name != "all" {
			q.Parent = "all"
		}
		amounts := func(most int64) share.Amounts {
			if n := d.bound(most); n != nil {
				return share.Amounts{{Name: []string{share.AmountGPU, "h100"}[d.chance.Intn(2)], Amount: *n * 1000}}
			}
			return nil
		}
		q.Limit, q.Quota, q.Owner.Amounts = amounts(6), amounts(6), amounts(4)
		q.Owner.Machines, q.Owner.Running = d.bound(3), d.bound(3)
		d.specs = append(d.specs, q)
	}
	return d
}

// within lists the queues that a job counts in.
func within(queue string) []string {
	if queue == "all" {
		return []string{"all"}
	}
	return []string{queue, "all"}
}

// has counts again what is in a queue, of one owner or of all, and of those that are not to be stopped or of all.
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

// over says what a job would exceed: a queue, and of what; "": nothing.
func (d *drawnTree) over(x *drawnJob) string {
	tooMuch := func(amounts share.Amounts, has int64) bool {
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

// beyond likewise says what a job would exceed that is not to be stopped.
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

// TestDrawnLimits holds what the tree of queues counts, and what it says to be too much, against a count of its own.
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
		s := newShares(&share.Queues{Queues: d.specs}, share.Expected)
		for i := range 30 {
			x := &drawnJob{
				queue: []string{"a", "b", "all"}[d.chance.Intn(3)], owner: []string{"ann", "bob"}[d.chance.Intn(2)],
				gpus: 1000 * d.chance.Int63n(3), fixed: d.chance.Intn(3) == 0,
			}
			x.nodes = append(x.nodes, []topology.NodeID{"n1", "n2", "n3"}[d.chance.Intn(3):]...)
			id := topology.JobID(fmt.Sprint(i % 6))
			if s.give(id, 0, false); d.jobs[id] != nil {
				delete(d.jobs, id)
			}
			total := topology.Resources{MilliGPU: x.gpus, MilliCPU: 5}
			leaf, needs := s.leaf(x.queue, x.owner), s.needs("h100", total)
			if got, want := words(s.over(leaf, x.owner, needs, x.nodes)), d.over(x); got != want {
				t.Fatalf("seed %d: %+v of %s is over %q, want %q", seed, *x, x.owner, got, want)
			}
			if got, want := words(s.beyond(leaf, needs)), d.beyond(x); got != want {
				t.Fatalf("seed %d: %+v is beyond %q, want %q", seed, *x, got, want)
			}
			if d.chance.Intn(3) > 0 {
				d.jobs[id] = x
				s.take(id, &hold{
					queue: x.queue, owner: x.owner, pool: "h100", total: total, size: x.gpus, nodes: x.nodes, fixed: x.fixed,
				})
			}
			if d.chance.Intn(5) == 0 { // the same queues are described again
				next := newShares(&share.Queues{Queues: d.specs}, share.Expected)
				next.follow(s, 0)
				s = next
			}
			for _, name := range []string{"all", "a", "b"} {
				gpus, _, _ := d.has(name, "", false)
				fixed, _, _ := d.has(name, "", true)
				if h := s.named[name]; h.has[0] != gpus || h.fixed[0] != fixed {
					t.Fatalf("seed %d: %s has %v, %v of them fixed, want %d and %d", seed, name, h.has, h.fixed, gpus, fixed)
				}
				if rest := len(s.named[name].owned); rest > 2 {
					t.Fatalf("seed %d: %d owners are known in %s", seed, rest, name)
				}
			}
		}
	}
}
