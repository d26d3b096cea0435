package rival

// This file owns what the comparisons have in common, and those of one line each: which job is first, and whether a
// gang that does not fit lets others pass.

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/topology"
)

// Oracle knows the durations of jobs. Policies for comparison may use it, and the default policy never does.
type Oracle interface {
	// Length is how long a job will run, or how long it may.
	Length(job topology.JobID) time.Duration
	// Over reports whether a job that was admitted has ended.
	Over(job topology.JobID) bool
}

// New makes a comparison by its name. Its gangs go where ground says.
func New(name string, ground Ground, oracle Oracle) (*Planner, error) {
	if !slices.Contains(record.Rivals(), name) {
		return nil, fmt.Errorf("there is no policy %q to compare with: %s", name, strings.Join(record.Rivals(), ", "))
	}
	return &Planner{name: name, ground: ground, oracle: oracle, sizes: map[int]*waitHeap{},
		easy: easy{sizes: map[int][]*waiter{}, at: map[int]int{}}}, nil
}

// Planner is one comparison.
type Planner struct {
	name   string
	ground Ground
	oracle Oracle

	view  *topology.Fabric // of this pass
	queue *policy.Queue
	now   time.Duration
	done  policy.Decisions

	sizes map[int]*waitHeap // the waiting, by their GPUs
	one   waitHeap          // the waiting, where those of all sizes stand in one line
	easy  easy

	// stuck: in the last pass the gang that blocks the others, or any gang where none
	// does, was no larger than what was free, and had no place.
	stuck bool
}

// Stuck reports whether the last pass left a gang that is no larger than the free room and has no place in it.
func (p *Planner) Stuck() bool { return p.stuck }

// waiter is a waiting gang.
type waiter struct {
	policy.Waiting
	gpus   int
	length time.Duration
	rank   int64 // smaller first

	started bool
}

// Plan runs a pass.
func (p *Planner) Plan(view *topology.Fabric, queue *policy.Queue, nowNs int64) policy.Decisions {
	p.view, p.queue, p.now, p.done, p.stuck = view, queue, time.Duration(nowNs), policy.Decisions{}, false
	p.ground.look(view)
	p.take()
	switch p.name {
	case "fifo", "sjf", "ssf":
		p.inLine()
	case "greedy", "sjfskip":
		p.skipping()
	case "easy":
		p.backfilling()
	}
	p.done.Joined = queue.Passed(view)
	return p.done
}

// take enters the jobs that came since the last pass, the first to come first.
func (p *Planner) take() {
	var came []*waiter
	p.queue.Entered(func(w policy.Waiting) {
		g := &waiter{Waiting: w, gpus: gpusOf(&w.Gang), length: p.oracle.Length(w.Job)}
		switch p.name {
		case "sjf", "sjfskip":
			g.rank = int64(g.length)
		case "ssf":
			g.rank = int64(g.length/time.Microsecond) * int64(g.gpus)
		}
		came = append(came, g)
	})
	slices.SortFunc(came, func(a, b *waiter) int { return cmp.Compare(a.Arrived, b.Arrived) })
	for _, g := range came {
		switch p.name {
		case "greedy", "sjfskip":
			heap.Push(p.size(g.gpus), g)
		case "easy":
			p.easy.came(g)
			heap.Push(&p.one, g)
		default:
			heap.Push(&p.one, g)
		}
	}
}

func (p *Planner) size(gpus int) *waitHeap {
	if p.sizes[gpus] == nil {
		p.sizes[gpus] = &waitHeap{}
	}
	return p.sizes[gpus]
}

// gpusOf counts what a gang wants.
func gpusOf(g *topology.Gang) int {
	milli := g.Total.MilliGPU
	if g.Split == topology.SplitNone {
		milli = g.Each.MilliGPU * int64(g.Replicas)
	}
	return int(milli / topology.WholeGPU)
}

// waits reports whether a gang still waits: it may have been cancelled.
func (p *Planner) waits(g *waiter) bool {
	_, waits := p.queue.Get(g.Job)
	return waits
}

// start admits a gang.
func (p *Planner) start(g *waiter, place Place) {
	p.done.Admit = append(p.done.Admit, p.queue.Admit(p.view, g.Job, place.placement(p.view, &g.Gang)))
	p.ground.take(place)
	if p.name == "easy" {
		p.easy.started(g, place, p.now)
	}
}

// inLine: the first one blocks all others.
func (p *Planner) inLine() {
	for p.one.Len() > 0 {
		first := p.one[0]
		if p.waits(first) {
			if !p.ground.fits(first) {
				p.stuck = p.ground.free() >= first.gpus
				return
			}
			p.start(first, p.ground.choose(first))
		}
		heap.Pop(&p.one)
	}
}

// skipping: whoever does not fit is passed by, and all of that size with him.
func (p *Planner) skipping() {
	var heads waitHeap
	for _, l := range p.sizes { //order: a heap brings them into theirs
		if l.Len() > 0 {
			heads = append(heads, (*l)[0])
		}
	}
	heap.Init(&heads)
	for heads.Len() > 0 && p.ground.free() > 0 {
		first := heap.Pop(&heads).(*waiter)
		size := p.size(first.gpus)
		if p.waits(first) {
			if !p.ground.fits(first) {
				p.stuck = p.stuck || p.ground.free() >= first.gpus
				continue
			}
			p.start(first, p.ground.choose(first))
		}
		heap.Pop(size)
		if size.Len() > 0 {
			heap.Push(&heads, (*size)[0])
		}
	}
}

// waitHeap orders those that wait.
type waitHeap []*waiter

func (l waitHeap) Len() int { return len(l) }
func (l waitHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].rank, l[j].rank), cmp.Compare(l[i].Arrived, l[j].Arrived)) < 0
}
func (l waitHeap) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push is for heap.Push.
func (l *waitHeap) Push(x any) { *l = append(*l, x.(*waiter)) }

// Pop is for heap.Pop.
func (l *waitHeap) Pop() any {
	last := len(*l) - 1
	g := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return g
}
