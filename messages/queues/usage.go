package queues

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file sums the usage of queues. The usage of a queue includes its descendants.

// maxUsages limits the number of queues with separate sums if every name is a queue. The jobs of further queues are
// summed under the empty name.
const maxUsages = 10_000

// Parents returns the parent of each configured queue.
func Parents(q *messages.Queues) map[string]string {
	all := map[string]string{}
	for _, s := range q.GetQueues() {
		all[s.GetName()] = s.GetParent()
	}
	return all
}

// EachAbove calls a function with a queue and each queue above it. An empty name is the default queue.
func EachAbove(name, usual string, parents map[string]string, do func(name string)) {
	name = cmp.Or(name, usual)
	for n := 0; n <= len(parents); n++ { // guards against a cycle
		do(name)
		if name = parents[name]; name == "" {
			return
		}
	}
}

// Usage sums the usage of jobs by queue.
type Usage struct {
	usual   string
	parents map[string]string
	of      map[string]*messages.QueueUsage
}

// NewUsage returns an empty sum for each configured queue.
func NewUsage(described *messages.Queues) *Usage {
	u := &Usage{
		usual: described.GetDefault(), parents: Parents(described), of: map[string]*messages.QueueUsage{},
	}
	for _, q := range described.GetQueues() {
		u.at(q.GetName())
	}
	return u
}

func (u *Usage) at(name string) *messages.QueueUsage {
	if u.of[name] == nil && len(u.of) >= maxUsages {
		name = ""
	}
	q := u.of[name]
	if q == nil {
		q = &messages.QueueUsage{Queue: name, InUse: &messages.Resources{}, Wanted: &messages.Resources{}}
		u.of[name] = q
	}
	return q
}

// Add adds a job to its queue and to each ancestor.
func (u *Usage) Add(job *messages.JobStatus) {
	use := messages.UseOf(job)
	if use == (messages.JobUse{}) {
		return
	}
	r := job.GetRecord()
	EachAbove(r.GetSpec().GetQueue(), u.usual, u.parents, func(name string) {
		q := u.at(name)
		q.Running, q.Waiting, q.Held = q.Running+use.Running, q.Waiting+use.Waiting, q.Held+use.Held
		add(q.InUse, use.InUse)
		add(q.Wanted, use.Wanted)
		if at := r.GetSubmittedUnixMs(); use.Waiting > 0 && (q.OldestUnixMs == 0 || at < q.OldestUnixMs) {
			q.OldestUnixMs = at
		}
	})
}

func add(sum *messages.Resources, r topology.Resources) {
	sum.MilliCpu += r.MilliCPU
	sum.MemoryBytes += r.MemoryBytes
	sum.MilliGpu += r.MilliGPU
}

// List returns the usage of all queues, by name.
func (u *Usage) List() []*messages.QueueUsage {
	all := make([]*messages.QueueUsage, 0, len(u.of))
	for _, name := range slices.Sorted(maps.Keys(u.of)) {
		all = append(all, u.of[name])
	}
	return all
}
