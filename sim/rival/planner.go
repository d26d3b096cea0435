package rival

// This file holds the common parts of the policies for comparison, and the simple policies. They differ in which job is
// first, and whether jobs may pass a gang that does not fit.

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
	// Length returns how long a job will run, or its limit.
	Length(job topology.JobID) time.Duration
	// Over reports whether an admitted job has ended.
	Over(job topology.JobID) bool
}

// New returns the policy for comparison with this name, whose gangs go where ground says.
func New(name string, ground Ground, oracle Oracle) (*Planner, error) {
	if !slices.Contains(record.Rivals(), name) {
		return nil, fmt.Errorf("unknown policy %q for comparison: use %s", name, strings.Join(record.Rivals(), ", "))
	}
	return &Planner{name: name, ground: ground, oracle: oracle, sizes: map[int]*waitHeap{},
		easy: easy{sizes: map[int][]*waiter{}, at: map[int]int{}}}, nil
}

// Planner is one policy for comparison.
type Planner struct {
	name   string
	ground Ground
	oracle Oracle

	view  *topology.Tree // view of this pass
	queue *policy.Queue
	now   time.Duration
	done  policy.Decisions

	sizes map[int]*waitHeap // waiting jobs by their GPUs
	one   waitHeap          // waiting jobs of all sizes in one line
	easy  easy

	// stuck reports that the last pass left a gang that is no larger than the free GPUs and does not fit. If a gang
	// blocks the others, only this gang counts.
	stuck bool
}

// Stuck reports whether the last pass left a gang that is no larger than the free GPUs and does not fit.
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
func (p *Planner) Plan(view *topology.Tree, queue *policy.Queue, nowNs int64) policy.Decisions {
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

// take adds the jobs that arrived since the last pass, in order of arrival.
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

// gpusOf returns the GPUs of a gang.
func gpusOf(g *topology.Gang) int {
	milli := g.Total.MilliGPU
	if g.Split == topology.SplitNone {
		milli = g.Each.MilliGPU * int64(g.Replicas)
	}
	return int(milli / topology.WholeGPU)
}

// waits reports whether a gang still waits. It may have been cancelled.
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

// inLine starts jobs in order. The first job that does not fit blocks all others.
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

// skipping starts jobs in order and skips a job that does not fit, with all others of its size.
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

// waitHeap orders the waiting jobs.
type waitHeap []*waiter

func (l waitHeap) Len() int { return len(l) }
func (l waitHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].rank, l[j].rank), cmp.Compare(l[i].Arrived, l[j].Arrived)) < 0
}
func (l waitHeap) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *waitHeap) Push(x any) { *l = append(*l, x.(*waiter)) }

// Pop implements heap.Interface.
func (l *waitHeap) Pop() any {
	last := len(*l) - 1
	g := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return g
}
