package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file computes the usage of queues and owners for the checkers, from the attempts and queues in the store. It
// uses no planner.

// queueOf returns a queue as the store describes it, or nil.
func (w *World) queueOf(name string) *messages.QueueSpec {
	for _, q := range w.books.queues.GetQueues().GetQueues() {
		if q.Name == name {
			return q
		}
	}
	return nil
}

// above returns a queue and its ancestors, the queue first.
func (w *World) above(name string) (all []*messages.QueueSpec) {
	for q := w.queueOf(name); q != nil; q = w.queueOf(q.Parent) {
		all = append(all, q)
	}
	return all
}

// isIn reports whether a job counts in a queue.
func (w *World) isIn(job *messages.JobRecord, queue string) bool {
	return slices.ContainsFunc(w.above(job.Spec.GetQueue()), func(q *messages.QueueSpec) bool { return q.Name == queue })
}

// had sums the resources of some attempts in a queue.
type had struct {
	gpus, running int64
	on            map[string]bool // nodes in use
	coming        int64           // upper bound of the nodes that may be committed soon
}

func (h *had) add(a *messages.AttemptRecord) {
	h.gpus += gpusOf(a)
	h.running++
	for _, p := range a.Places {
		h.on[p.Node] = true
	}
}

func gpusOf(a *messages.AttemptRecord) (n int64) {
	for _, p := range a.Places {
		n += p.Grant.GetAmount().GetMilliGpu()
	}
	return n
}

// had sums the current attempts of these jobs in a queue, as the store has them.
func (w *World) had(queue string, these func(*messages.JobRecord) bool) had {
	h := had{on: map[string]bool{}}
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		a := w.books.latest(page)
		if a == nil || a.End != nil || page.record.State.Terminal() || !w.isIn(page.record, queue) || !these(page.record) ||
			w.unreadable(page.record.Id) { // its queue cannot be read
			continue
		}
		h.add(a)
	}
	return h
}

func anyJob(*messages.JobRecord) bool { return true }

// gpusIn returns the GPUs in a list of amounts, or a negative number if the list names none.
func gpusIn(list []*messages.Amount) int64 {
	for _, a := range list {
		if a.Name == "gpu" {
			return a.Amount
		}
	}
	return -1
}

// standing compares two jobs up to the common ancestor of their queues. It returns how many queues of job have a quota,
// and how many of these stay within the quota with job. Jobs that are being preempted do not count, whether that is on
// disk yet or not. The function more adds usage by queue.
func (w *World) standing(job, other *messages.JobRecord, more func(queue string) int64) (within, assured int) {
	goes := map[string]bool{job.Id: true}
	for _, id := range w.books.ids {
		for _, v := range w.books.jobs[id].record.GetPromise().GetVictims() {
			goes[v.Job] = true
		}
	}
	if p := w.leader(); p != nil && p.leader != nil {
		for _, id := range p.leader.Stopping(math.MaxUint64) {
			goes[string(id)] = true
		}
	}
	for _, q := range w.above(job.Spec.GetQueue()) {
		if w.isIn(other, q.Name) {
			break
		}
		if len(q.Quota) > 0 {
			assured++
		}
		quota, has := gpusIn(q.Quota), w.had(q.Name, func(o *messages.JobRecord) bool { return !goes[o.Id] }).gpus
		if quota >= 0 && has+more(q.Name)+gpusAsked(job.Spec) <= quota {
			within++
		}
	}
	return within, assured
}

// nothingMore adds nothing to the usage of a queue in the store.
func nothingMore(string) int64 { return 0 }

// starting sums the jobs that a leader may be starting in a queue, except one job. Starts of the same pass count before
// the store or a node knows of them.
func (w *World) starting(queue, but string) (sum int64) {
	p := w.leader()
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		r := page.record
		if a := w.books.latest(page); id == but || r.State.Terminal() || a != nil && a.End == nil || !w.isIn(r, queue) {
			continue
		}
		if r.Promise != nil || p != nil && p.leader != nil && !p.leader.Starting(topology.JobID(id)).IsZero() {
			sum += gpusAsked(r.Spec)
		}
	}
	return sum
}

// alike reports whether the same queue limits apply to two jobs, and both are ordered by arrival.
func (w *World) alike(a, b *messages.JobRecord) bool {
	return w.books.queues == nil || w.inTurn(a.Spec.GetQueue()) && a.Spec.GetQueue() == b.Spec.GetQueue() &&
		a.Owner.Known() == b.Owner.Known() && a.Spec.GetNotPreemptible() == b.Spec.GetNotPreemptible()
}

// inTurn reports whether the jobs of a queue are ordered by arrival, in a cluster that does not look ahead.
func (w *World) inTurn(queue string) bool {
	order := messages.QueueOrder_QUEUE_ORDER_UNSPECIFIED
	for _, q := range w.above(queue) {
		order = cmp.Or(order, q.Order)
	}
	return order == messages.QueueOrder_QUEUE_ORDER_UNSPECIFIED || order == messages.QueueOrder_QUEUE_ORDER_FIFO
}

// reclaims reports whether a queue's quota is reclaimed for its jobs.
func (w *World) reclaims(queue string) bool {
	for _, q := range w.above(queue) {
		if q.Reclaim != nil {
			return *q.Reclaim
		}
	}
	return false
}

// barred returns a limit that may block a job, or the quota for jobs that are not preemptible. An empty result means
// none. Attempts that are about to be committed or are stopping may count.
func (c *headRuns) barred(w *World, page *jobPage) string {
	if w.books.queues == nil {
		return ""
	}
	job := page.record
	assured := false
	for _, q := range w.above(job.Spec.Queue) {
		assured = assured || len(q.Quota) > 0
		if why := over(q, job, machinesAsked(job.Spec), func(these func(*messages.JobRecord) bool) had {
			return c.mayHave(w, q.Name, these)
		}); why != "" {
			return why
		}
	}
	if job.Spec.NotPreemptible && !assured {
		return "nothing is assured to its queue"
	}
	return ""
}

// over returns the limit of a queue that a job on this many more nodes would exceed, with the present use by this
// count. An empty result means none.
func over(q *messages.QueueSpec, job *messages.JobRecord, machines int64,
	count func(these func(*messages.JobRecord) bool) had,
) string {
	all, need := count(anyJob), gpusAsked(job.Spec)
	own := count(func(o *messages.JobRecord) bool { return o.Owner.Known() == job.Owner.Known() })
	fixed := count(func(o *messages.JobRecord) bool { return o.Spec.GetNotPreemptible() })
	switch limit, each, quota := gpusIn(q.Limit), gpusIn(q.OwnerAmounts), gpusIn(q.Quota); {
	case limit >= 0 && need > 0 && all.gpus+need > limit, each >= 0 && need > 0 && own.gpus+need > each:
		return "the limit of " + q.Name
	case q.OwnerRunning != nil && own.running >= *q.OwnerRunning:
		return "the running jobs of an owner in " + q.Name
	case q.OwnerMachines != nil && int64(len(own.on))+own.coming+machines > *q.OwnerMachines:
		return "the machines of an owner in " + q.Name
	case job.Spec.NotPreemptible && quota >= 0 && need > 0 && fixed.gpus+need > quota:
		return "what is assured to " + q.Name
	}
	return ""
}

// mayHave returns the resources of a queue with everything that may count.
func (c *headRuns) mayHave(w *World, queue string, these func(*messages.JobRecord) bool) had {
	h := w.had(queue, these)
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		r := page.record
		if r.State.Terminal() || !w.isIn(r, queue) || !these(r) {
			continue
		}
		a := w.books.latest(page)
		at, tried := c.tried[id]
		// a start guarantee counts as if the job had started
		comes := r.Promise != nil || tried && w.engine.now.since(at) < 20e9
		if a != nil && a.End != nil && a.Owes() {
			h.add(a)
		} else if (a == nil || a.End != nil) && comes {
			h.gpus += gpusAsked(r.Spec)
			h.running++
			h.coming += machinesAsked(r.Spec)
		}
	}
	return h
}

// gpusAsked returns the GPUs that all tasks of a gang request.
func gpusAsked(spec *messages.JobSpec) int64 {
	if spec.GetEach() == nil {
		return spec.GetGang().GetTotal().GetMilliGpu()
	}
	return spec.Each.MilliGpu * int64(spec.GetGang().GetReplicasMin())
}

// smallest is the size of the smallest nodes of a drawn world, in thousandths of GPUs.
const smallest = 4 * topology.WholeGPU

// machinesAsked returns the maximum number of nodes of a gang.
func machinesAsked(spec *messages.JobSpec) int64 {
	return max(int64(spec.GetGang().GetReplicasMin()), gpusAsked(spec)/smallest)
}

// everAllowed reports whether a job could start in an idle cluster under the present queues.
func (w *World) everAllowed(job *messages.JobRecord) bool {
	if w.books.queues == nil {
		return true
	}
	assured, need := !job.Spec.NotPreemptible, gpusAsked(job.Spec)
	for _, q := range w.above(job.Spec.Queue) {
		limit, each, quota := gpusIn(q.Limit), gpusIn(q.OwnerAmounts), gpusIn(q.Quota)
		if limit >= 0 && need > limit || each >= 0 && need > each ||
			q.OwnerMachines != nil && machinesAsked(job.Spec) > *q.OwnerMachines ||
			job.Spec.NotPreemptible && quota >= 0 && need > quota {
			return false
		}
		assured = assured || len(q.Quota) > 0
	}
	return assured
}
