package policy

// This file owns the tree of queues with what the jobs of each hold. What a queue has is counted in all queues above it
// too: a quota, a limit and what one owner may have hold for a queue with all below it. It counts what is started at
// once, so that no two jobs of one pass are given the same. Who has its turn is in turns.go.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// branch is one queue, or what stands beside those below it: the jobs of the queue itself. Below one whose order is
// fair there is one more for each owner.
type branch struct {
	name   string
	at     int // in the order of the description
	parent *branch
	below  []*branch
	own    *branch            // of the queue's own jobs, where it has others below; else itself
	owners map[string]*branch // where the order is fair

	quota, limit []int64 // by amount; below 0: it is not counted
	assured      bool    // some of it is
	weight       int64
	order        share.Order
	each         perOwner
	preempts     preemption

	has   []int64 // what its jobs hold
	fixed []int64 // of that, what is not to be stopped
	used  used
	owned map[string]*holding // by owner
	turns turns               // of a pass
}

// perOwner is what one owner may have; below 0: as much as there is.
type perOwner struct {
	amounts           []int64
	machines, running int64
}

// holding is what one owner has.
type holding struct {
	has     []int64
	running int64
	on      map[topology.NodeID]int // jobs of theirs, by machine
}

// hold is what a job has.
type hold struct {
	queue, owner, pool string
	total              topology.Resources
	size, since        int64
	nodes              []topology.NodeID // each once
	fixed              bool              // it is not to be stopped
	leaf               *branch
}

// shares is the tree.
type shares struct {
	amounts []string // that are counted: the fixed ones, and then types of GPUs
	usual   string   // of jobs that name no queue
	root    *branch
	named   map[string]*branch
	jobs    map[topology.JobID]*hold
	// preempting: in some queue others may be stopped for those that wait.
	preempting bool
	reclaiming bool // in some, what they are assured is taken back for those
}

func newShares(q *share.Queues, order share.Order) *shares {
	s := &shares{named: map[string]*branch{}, jobs: map[topology.JobID]*hold{}, usual: q.Default}
	s.amounts = []string{share.AmountGPU, share.AmountCPU, share.AmountMemory}
	for i := range q.Queues {
		for _, list := range []share.Amounts{q.Queues[i].Quota, q.Queues[i].Limit, q.Queues[i].Owner.Amounts} {
			for _, a := range list {
				if !slices.Contains(s.amounts, a.Name) {
					s.amounts = append(s.amounts, a.Name)
				}
			}
		}
	}
	s.root = s.newShare("", nil)
	s.root.order, s.root.preempts.minRun = order, usualMinRun
	for left := len(q.Queues); left > 0; { // parents first, wherever they stand
		for i := range q.Queues {
			if s.add(&q.Queues[i]) {
				left--
			}
		}
	}
	for i := range q.Queues {
		s.named[q.Queues[i].Name].at = i
	}
	s.sort(s.root)
	return s
}

// newShare makes a queue that has nothing of its own yet and takes everything from its parent.
func (s *shares) newShare(name string, parent *branch) *branch {
	none := make([]int64, len(s.amounts))
	for i := range none {
		none[i] = -1
	}
	h := &branch{
		name: name, parent: parent, weight: 1, quota: none, limit: none, each: perOwner{none, -1, -1},
		has: make([]int64, len(s.amounts)), fixed: make([]int64, len(s.amounts)), owned: map[string]*holding{},
	}
	if h.own = h; parent != nil {
		h.weight, h.order, h.at, h.preempts = parent.weight, parent.order, parent.at, parent.preempts
		parent.below = append(parent.below, h)
	}
	return h
}

// add enters a queue whose parent is there and which is not.
func (s *shares) add(q *share.QueueSpec) bool {
	parent := s.root
	if q.Parent != "" {
		parent = s.named[q.Parent]
	}
	if parent == nil || s.named[q.Name] != nil {
		return false
	}
	h := s.newShare(q.Name, parent)
	s.named[q.Name] = h
	h.quota, h.limit, h.each.amounts = s.vector(q.Quota), s.vector(q.Limit), s.vector(q.Owner.Amounts)
	h.assured = len(q.Quota) > 0
	h.preempts.change(&q.Preemption)
	s.reclaiming = s.reclaiming || h.preempts.reclaim
	s.preempting = s.preempting || h.preempts.isInside() || h.preempts.reclaim
	if q.Weight != nil {
		h.weight = *q.Weight
	}
	if q.Order != nil {
		h.order = *q.Order
	}
	if q.Owner.Machines != nil {
		h.each.machines = *q.Owner.Machines
	}
	if q.Owner.Running != nil {
		h.each.running = *q.Owner.Running
	}
	return true
}

func (s *shares) vector(amounts share.Amounts) []int64 {
	v := make([]int64, len(s.amounts))
	for i, name := range s.amounts {
		if v[i] = -1; len(amounts) > 0 {
			if n, ok := amounts.Of(name); ok {
				v[i] = n
			}
		}
	}
	return v
}

// sort brings those below a queue into the order of the description, and gives the queue's own jobs a place among them.
func (s *shares) sort(h *branch) {
	slices.SortFunc(h.below, func(a, b *branch) int { return cmp.Compare(a.at, b.at) })
	for _, b := range h.below {
		s.sort(b)
	}
	if len(h.below) > 0 && h != s.root {
		h.own = s.newShare(h.name, h)
	}
}

// leaf is where the jobs of a queue and an owner are counted. A queue that nobody described is closed: what it has goes
// on without quota.
func (s *shares) leaf(queue, owner string) *branch {
	queue = cmp.Or(queue, s.usual)
	h := s.named[queue]
	if h == nil {
		h = s.newShare(queue, s.root)
		h.at = len(s.named)
		s.named[queue] = h
	}
	if h = h.own; h.order != share.Fair {
		return h
	}
	if h.owners == nil {
		h.owners = map[string]*branch{}
	}
	o := h.owners[owner]
	if o == nil {
		o = s.newShare(h.name, h)
		o.weight, o.order = 1, share.Expected
		h.owners[owner] = o
	}
	return o
}

// needs is what a job of a pool takes of each amount.
func (s *shares) needs(pool string, total topology.Resources) []int64 {
	v := make([]int64, len(s.amounts))
	for i, name := range s.amounts {
		switch {
		case name == share.AmountCPU:
			v[i] = total.MilliCPU
		case name == share.AmountMemory:
			v[i] = total.MemoryBytes
		case name == share.AmountGPU, name == pool:
			v[i] = total.MilliGPU
		}
	}
	return v
}

// take counts a job that is started.
func (s *shares) take(job topology.JobID, x *hold) {
	s.give(job, x.since, false)
	s.jobs[job] = x
	x.leaf = s.leaf(x.queue, x.owner)
	s.move(x, 1, x.since)
}

// give counts a job no more. What it used is taken back where that came to nothing.
func (s *shares) give(job topology.JobID, now int64, forgiven bool) {
	x := s.jobs[job]
	if x == nil {
		return
	}
	delete(s.jobs, job)
	s.move(x, -1, now)
	for h := x.leaf; forgiven && h != nil; h = h.parent {
		h.used.forgive(x.size, x.since, now)
	}
}

func (s *shares) move(x *hold, by, now int64) {
	for h := x.leaf; h != nil; h = h.parent {
		h.used.change(by*x.size, now)
	}
	s.count(x, by)
}

// count counts what a job has, or counts it no more.
func (s *shares) count(x *hold, by int64) {
	needs := s.needs(x.pool, x.total)
	for h := x.leaf; h != nil; h = h.parent {
		o := h.owned[x.owner]
		if o == nil {
			o = &holding{has: make([]int64, len(s.amounts)), on: map[topology.NodeID]int{}}
			h.owned[x.owner] = o
		}
		for i, n := range needs {
			h.has[i] += by * n
			o.has[i] += by * n
			if x.fixed {
				h.fixed[i] += by * n
			}
		}
		o.running += by
		for _, node := range x.nodes {
			if o.on[node] += int(by); o.on[node] == 0 {
				delete(o.on, node)
			}
		}
		if o.running == 0 {
			delete(h.owned, x.owner)
		}
	}
}

// countAll does so of several.
func (s *shares) countAll(all []*hold, by int64) {
	for _, x := range all {
		s.count(x, by)
	}
}

// follow takes over what another tree counts: the same jobs, and what was used by the names of the queues.
func (s *shares) follow(was *shares, now int64) {
	s.root.used = was.root.used.rested(now)
	for _, name := range slices.Sorted(maps.Keys(was.named)) {
		h := was.named[name]
		s.leaf(name, "") // one that is not described any more is closed
		next := s.named[name]
		next.used, next.own.used = h.used.rested(now), h.own.used.rested(now)
		for owner, o := range h.own.owners { //order: each by its name
			if next.own.order == share.Fair {
				s.leaf(name, owner).used = o.used.rested(now)
			}
		}
	}
	for job, x := range was.jobs { //order: they are summed up
		next := *x
		next.leaf = s.leaf(x.queue, x.owner)
		s.move(&next, 1, now)
		s.jobs[job] = &next
	}
}
