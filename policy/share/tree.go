package share

// This file has the tree of queues with the usage of their jobs. The usage of a queue counts in all its ancestors too,
// because quotas, limits and limits of owners apply to a queue with its descendants. A job counts as soon as it is
// started, so that two jobs of one pass do not get the same amount. The planner decides on the order of turns.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Branch is one queue, or the own jobs of a queue that also has descendants. A queue with the order Fair has one
// further branch per owner.
type Branch struct {
	Name   string
	At     int // position in the configuration
	Parent *Branch
	below  []*Branch
	own    *Branch            // branch of the queue's own jobs if it has descendants; otherwise the queue itself
	owners map[string]*Branch // if the order is Fair

	quota, limit []int64 // by amount; negative: not set
	Assured      bool    // the queue has a quota
	Weight       int64
	Order        Order
	each         perOwner
	Preempts     Preempts

	has   []int64 // held by its jobs
	fixed []int64 // part of has that must not be stopped
	used  used
	owned map[string]*holding // by owner
	last  lastUse
}

// perOwner has the limits of one owner; negative: unlimited.
type perOwner struct {
	amounts           []int64
	machines, running int64
}

// holding counts the usage of one owner.
type holding struct {
	has     []int64
	running int64
	on      map[topology.NodeID]int // number of jobs by node
}

// Hold is the usage of a job, and the branch where it counts.
type Hold struct {
	Queue, Owner, Pool string
	Total              topology.Resources
	Size, Since        int64
	Nodes              []topology.NodeID // each once
	Fixed              bool              // must not be stopped
	Leaf               *Branch
}

// Tree is the tree of queues.
type Tree struct {
	amounts []string // counted amounts: the fixed ones, then GPU types
	usual   string   // queue of jobs that name none
	Root    *Branch
	named   map[string]*Branch
	jobs    map[topology.JobID]*Hold
	// Preempting is true if any queue stops jobs for waiting ones.
	Preempting bool
	Reclaiming bool // true if any queue reclaims its quota
}

// New returns a tree without usage. order is the order of queues that set none.
func New(q *Queues, order Order) *Tree {
	s := &Tree{named: map[string]*Branch{}, jobs: map[topology.JobID]*Hold{}, usual: q.Default}
	s.amounts = []string{AmountGPU, AmountCPU, AmountMemory}
	for i := range q.Queues {
		for _, list := range []Amounts{q.Queues[i].Quota, q.Queues[i].Limit, q.Queues[i].Owner.Amounts} {
			for _, a := range list {
				if !slices.Contains(s.amounts, a.Name) {
					s.amounts = append(s.amounts, a.Name)
				}
			}
		}
	}
	s.Root = s.newBranch("", nil)
	s.Root.Order, s.Root.Preempts.MinRun = order, UsualMinRun
	for left := len(q.Queues); left > 0; { // parents first, whatever their position
		for i := range q.Queues {
			if s.add(&q.Queues[i]) {
				left--
			}
		}
	}
	for i := range q.Queues {
		s.named[q.Queues[i].Name].At = i
	}
	s.sort(s.Root)
	return s
}

// newBranch returns a branch without own settings, which inherits everything from its parent.
func (s *Tree) newBranch(name string, parent *Branch) *Branch {
	none := make([]int64, len(s.amounts))
	for i := range none {
		none[i] = -1
	}
	h := &Branch{
		Name: name, Parent: parent, Weight: 1, quota: none, limit: none, each: perOwner{none, -1, -1},
		has: make([]int64, len(s.amounts)), fixed: make([]int64, len(s.amounts)), owned: map[string]*holding{},
	}
	if h.own = h; parent != nil {
		h.Weight, h.Order, h.At, h.Preempts = parent.Weight, parent.Order, parent.At, parent.Preempts
		parent.below = append(parent.below, h)
	}
	return h
}

// add adds a queue if its parent exists and the queue does not. It reports whether it did.
func (s *Tree) add(q *QueueSpec) bool {
	parent := s.Root
	if q.Parent != "" {
		parent = s.named[q.Parent]
	}
	if parent == nil || s.named[q.Name] != nil {
		return false
	}
	h := s.newBranch(q.Name, parent)
	s.named[q.Name] = h
	h.quota, h.limit, h.each.amounts = s.vector(q.Quota), s.vector(q.Limit), s.vector(q.Owner.Amounts)
	h.Assured = len(q.Quota) > 0
	h.Preempts.change(&q.Preemption)
	s.Reclaiming = s.Reclaiming || h.Preempts.Reclaim
	s.Preempting = s.Preempting || h.Preempts.IsInside() || h.Preempts.Reclaim
	given(&h.Weight, q.Weight)
	given(&h.Order, q.Order)
	given(&h.each.machines, q.Owner.Machines)
	given(&h.each.running, q.Owner.Running)
	return true
}

// given copies a value that is set.
func given[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Tree) vector(amounts Amounts) []int64 {
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

// sort sorts the children of a queue in the order of the configuration, and adds a branch for the queue's own jobs.
func (s *Tree) sort(h *Branch) {
	slices.SortFunc(h.below, func(a, b *Branch) int { return cmp.Compare(a.At, b.At) })
	for _, b := range h.below {
		s.sort(b)
	}
	if len(h.below) > 0 && h != s.Root {
		h.own = s.newBranch(h.Name, h)
	}
}

// Leaf returns the branch where the jobs of a queue and an owner count. A queue without configuration gets a branch
// without quota: its present jobs continue.
func (s *Tree) Leaf(queue, owner string) *Branch {
	queue = cmp.Or(queue, s.usual)
	h := s.named[queue]
	if h == nil {
		h = s.newBranch(queue, s.Root)
		h.At = len(s.named)
		s.named[queue] = h
	}
	if h = h.own; h.Order != Fair {
		return h
	}
	if h.owners == nil {
		h.owners = map[string]*Branch{}
	}
	o := h.owners[owner]
	if o == nil {
		o = s.newBranch(h.Name, h)
		o.Weight, o.Order = 1, Expected
		h.owners[owner] = o
	}
	return o
}

// Needs returns the needs of a job in a pool, by amount.
func (s *Tree) Needs(pool string, total topology.Resources) []int64 {
	v := make([]int64, len(s.amounts))
	for i, name := range s.amounts {
		switch {
		case name == AmountCPU:
			v[i] = total.MilliCPU
		case name == AmountMemory:
			v[i] = total.MemoryBytes
		case name == AmountGPU, name == pool:
			v[i] = total.MilliGPU
		}
	}
	return v
}

// Take counts a started job.
func (s *Tree) Take(job topology.JobID, x *Hold) {
	s.Give(job, x.Since, false)
	s.jobs[job] = x
	x.Leaf = s.Leaf(x.Queue, x.Owner)
	s.move(x, 1, x.Since)
}

// Give removes a job from the counts. If forgiven is true, its usage is removed too.
func (s *Tree) Give(job topology.JobID, now int64, forgiven bool) {
	x := s.jobs[job]
	if x == nil {
		return
	}
	delete(s.jobs, job)
	s.move(x, -1, now)
	for h := x.Leaf; forgiven && h != nil; h = h.Parent {
		h.used.forgive(x.Size, x.Since, now)
	}
}

func (s *Tree) move(x *Hold, by, now int64) {
	for h := x.Leaf; h != nil; h = h.Parent {
		h.used.change(by*x.Size, now)
	}
	s.count(x, by)
}

// Count adds (by 1) or removes (by -1) holdings without changing the recorded usage.
func (s *Tree) Count(by int64, holds ...*Hold) {
	for _, x := range holds {
		s.count(x, by)
	}
}

func (s *Tree) count(x *Hold, by int64) {
	needs := s.Needs(x.Pool, x.Total)
	for h := x.Leaf; h != nil; h = h.Parent {
		o := h.owned[x.Owner]
		if o == nil {
			o = &holding{has: make([]int64, len(s.amounts)), on: map[topology.NodeID]int{}}
			h.owned[x.Owner] = o
		}
		for i, n := range needs {
			h.has[i] += by * n
			o.has[i] += by * n
			if x.Fixed {
				h.fixed[i] += by * n
			}
		}
		o.running += by
		for _, node := range x.Nodes {
			if o.on[node] += int(by); o.on[node] == 0 {
				delete(o.on, node)
			}
		}
		if o.running == 0 {
			delete(h.owned, x.Owner)
		}
	}
}

// Follow copies the jobs of another tree, and its recorded usage by the names of queues.
func (s *Tree) Follow(was *Tree, now int64) {
	s.Root.used = was.Root.used.rested(now)
	for _, name := range slices.Sorted(maps.Keys(was.named)) {
		h := was.named[name]
		s.Leaf(name, "") // a queue that is no longer configured is closed
		next := s.named[name]
		next.used, next.own.used = h.used.rested(now), h.own.used.rested(now)
		for owner, o := range h.own.owners { //order: each by its name
			if next.own.Order == Fair {
				s.Leaf(name, owner).used = o.used.rested(now)
			}
		}
	}
	for job, x := range was.jobs { //order: they are summed up
		next := *x
		next.Leaf = s.Leaf(x.Queue, x.Owner)
		s.move(&next, 1, now)
		s.jobs[job] = &next
	}
}

// All returns the holdings of all jobs. The caller only reads them.
func (s *Tree) All() map[topology.JobID]*Hold { return s.jobs }

// Of returns the holding of a job, or nil if it is not counted.
func (s *Tree) Of(job topology.JobID) *Hold { return s.jobs[job] }

// Running returns the number of an owner's jobs in a queue and its descendants.
func (s *Tree) Running(queue, owner string) int64 {
	if s.named[queue] == nil || s.named[queue].owned[owner] == nil {
		return 0
	}
	return s.named[queue].owned[owner].running
}

// InUse returns the holdings in a queue and its descendants, except for some jobs. It returns false if the queue is not
// configured and has no jobs.
func (s *Tree) InUse(queue string, without map[topology.JobID]bool) (topology.Resources, bool) {
	if s.named[queue] == nil {
		return topology.Resources{}, false
	}
	has := s.named[queue].has // the fixed amounts are first
	sum := topology.Resources{MilliGPU: has[0], MilliCPU: has[1], MemoryBytes: has[2]}
	for job := range without { //order: they are summed up
		hold := s.jobs[job]
		for h := hold.Leaf; h != nil; h = h.Parent {
			if h == s.named[queue] {
				sum.MilliGPU -= hold.Total.MilliGPU
				sum.MilliCPU -= hold.Total.MilliCPU
				sum.MemoryBytes -= hold.Total.MemoryBytes
			}
		}
	}
	return sum, true
}
