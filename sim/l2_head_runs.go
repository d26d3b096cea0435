package sim

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// headRuns is L2: if a brute-force search always finds capacity for the first gang of the queue, this gang runs within
// 30 s. Backed-off nodes first get the longest backoff to return.
//
// Two more rules apply in a run without lost messages and waiting writes. No job is admitted before the first job that
// requests no more than it. A job that always has capacity runs within ten seconds, first or not.
//
// A planner that looks ahead, which is the default, reserves nodes. Capacity reserved for another job does not count as
// free. A gang of several nodes may wait for close nodes for a minute or half of its waiting time, and at most ten
// minutes. The queue alone does not decide then which job is first. With queues, limits may be reached. A job is then
// compared only with jobs under the same limits.
type headRuns struct {
	rule
	head  string
	since instant
	tried map[string]instant // when each job's latest attempt began
	token map[string]topology.Token
	wrote map[string]instant // when each job's record was last written
	past  []passed           // jobs to be checked again
	room  map[string]instant // since when each waiting job has had capacity
	early map[string]instant // when each job with a begin time was last too early
}

// passed is a job that another job with the same request overtook.
type passed struct {
	job, by string
	at      instant
}

func newHeadRuns() *headRuns {
	return &headRuns{rule: rule{"L2 head-runs", on{Sent, Stored, Scanned}},
		tried: map[string]instant{}, token: map[string]topology.Token{}, wrote: map[string]instant{},
		room: map[string]instant{}, early: map[string]instant{}}
}

func (c *headRuns) clauses() []clause {
	head := func(w *World, page *jobPage) bool { return c.isCalm(w) && c.first(w) == page }
	roomy := func(w *World, page *jobPage) bool { return c.looksClosely(w) && c.waits(w, page) }
	passed := func(w *World, page *jobPage) bool { return c.looksClosely(w) && !w.ahead() && c.waits(w, page) }
	none := func(*World, *jobPage) string { return "" }
	return []clause{{"head", head, none}, {"room", roomy, c.awayFromRoom}, {"passed", passed, c.awayFromPassed}}
}

// isCalm reports whether all faults are repaired and no node is backed off any more.
func (c *headRuns) isCalm(w *World) bool {
	return w.healed && w.engine.now.since(w.healedAt) >= w.constants.NodeBackoffCap+20*time.Second
}

// awayFromRoom returns why the checker does not judge whether a job with capacity runs.
func (*headRuns) awayFromRoom(w *World, _ *jobPage) string {
	if !w.leadsLong() {
		return "a leader took over a moment ago"
	}
	return ""
}

// awayFromPassed returns why the checker does not judge which jobs are admitted before a job.
func (*headRuns) awayFromPassed(w *World, page *jobPage) string {
	if !w.inTurn(page.record.Spec.GetQueue()) {
		return "its queue has another order"
	}
	return ""
}

// leadsLong reports whether a leader has led from the beginning, or has heard all nodes since its takeover.
func (w *World) leadsLong() bool {
	return w.elections <= 1 || w.engine.now.since(w.ledSince) >= w.constants.NodeBackoffCap+20*time.Second
}

func (c *headRuns) Step(w *World, e *Event) {
	if w.opts.Planner != nil { // a custom planner has its own order
		return
	}
	switch e.Kind {
	case Stored:
		c.note(w, e)
		return
	case Sent:
		if m, is := e.Message.(*messages.Reserve); is && c.looksClosely(w) {
			c.onTried(w, m.Order)
		}
		return
	}
	c.lookBack(w)
	if c.looksClosely(w) {
		c.allWithRoom(w)
	}
	if !c.isCalm(w) {
		return
	}
	head := c.first(w)
	if head == nil || head.record.Spec.GetEach() == nil || !w.fitsNow(head.record, c.surelyFirst(w, head)) ||
		c.barred(w, head) != "" || w.books.awaitsVictims(head) {
		c.head = ""
		return
	}
	if head.record.Id != c.head || head.since > c.since { // it may have run since the last look, or it was held
		c.head, c.since = head.record.Id, w.engine.now
		return
	}
	if w.engine.now.since(c.since) > 30*time.Second+w.locality(head, c.since) {
		c.violate(w, "the first job has had capacity for 30 s and does not run: %s", w.whyWaits(head))
	}
}

// looksClosely reports whether every waiting job is checked in this run. In a large cluster that would cost more than
// the run itself.
func (c *headRuns) looksClosely(w *World) bool { return w.faults.prompt() && len(w.machines) <= 1000 }

// note records the requests to the store and the nodes. They tell later whether a job truly waits.
func (c *headRuns) note(w *World, e *Event) {
	switch m := e.Message.(type) {
	case *messages.Reserve:
		c.noteTried(w, m.Order)
	default:
		if e.Kind == Stored && e.Stored.job != nil {
			c.wrote[e.Stored.job.Id] = w.engine.now
		}
	}
}

// noteTried notes when an attempt began, and reports whether this is its first order.
func (c *headRuns) noteTried(w *World, o *messages.Order) bool {
	t := messages.FromToken(o.Token)
	if c.token[o.Job] == t {
		return false
	}
	c.token[o.Job], c.tried[o.Job] = t, w.engine.now
	return true
}

// onTried checks at the start of an attempt whether it overtakes another job.
func (c *headRuns) onTried(w *World, o *messages.Order) {
	if !c.noteTried(w, o) {
		return
	}
	page := w.books.jobs[o.Job]
	if w.ahead() || page == nil {
		return
	}
	head := c.firstOf(w, func(r *messages.JobRecord) bool { return w.alike(r, page.record) })
	if head == nil || !ahead(head.record, page.record) ||
		!c.trulyWaits(w, head) || w.engine.now.since(c.wrote[head.record.Id]) < time.Second {
		return
	}
	want, got := head.record.Spec, page.record.Spec
	anywhere := len(want.Nodes) == 0 && len(want.Exclude) == 0 && !want.GetGang().GetApart() &&
		want.GetRestart().GetSpares() == 0 && want.GetScript() == nil && want.User == "" &&
		len(messages.NetworkLabels(want.Network)) == 0
	for _, n := range w.books.nodes { //order: any will do
		anywhere = anywhere && n.Closing == nil // it may close too early for one of the two jobs
	}
	if want.Topology == nil && anywhere && want.Each != nil && proto.Equal(want.Each, got.Each) && want.GetGang().
		GetReplicasMin() <= got.GetGang().GetReplicasMin() {
		c.past = append(c.past, passed{head.record.Id, o.Job, w.engine.now})
	}
}

// lookBack checks overtaken jobs again after a moment. One pass may have admitted both jobs, and chance decides which
// event comes first.
func (c *headRuns) lookBack(w *World) {
	kept := c.past[:0]
	for _, p := range c.past {
		switch {
		case w.engine.now.since(p.at) < time.Second/2:
			kept = append(kept, p)
		case c.tried[p.job] < p.at && c.wrote[p.job] < p.at:
			c.violate(w, "job %s was tried at %s before job %s, which is ahead of it and requests no more: %s",
				p.by, clockFace(p.at),
				p.job, w.whyWaits(w.books.jobs[p.job]))
		}
	}
	c.past = kept
}

// allWithRoom checks every waiting job.
func (c *headRuns) allWithRoom(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil || c.awayFromRoom(w, nil) != "" {
		clear(c.room)
		return
	}
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		spec := page.record.Spec
		room := func(m *machine) (topology.Capacity, bool) {
			free, usable := w.roomInView(p, m, page.record)
			return free, usable && m.accepts(page.record.Owner, spec.User)
		}
		if !c.waits(w, page) || !c.trulyWaits(w, page) || spec.GetTopology().GetPreferred() != "" ||
			!w.fits(spec, room) || c.barred(w, page) != "" {
			delete(c.room, id)
			continue
		}
		if c.room[id] < page.since { // it may have been held and released since the last look
			c.room[id] = w.engine.now
		}
		if w.engine.now.since(c.room[id]) > 10*time.Second+w.locality(page, c.room[id]) {
			c.violate(w, "a job has had capacity for 10 s and does not run: %s", w.whyWaits(page))
			return
		}
	}
}

// roomInView returns the free capacity of a node, if the leader may use it.
func (w *World) roomInView(p *process, m *machine, job *messages.JobRecord) (topology.Capacity, bool) {
	if !w.isServing(p, m) {
		return topology.Capacity{}, false
	}
	return w.unkept(p, m, job), true
}

// ahead reports whether the planner looks ahead.
func (w *World) ahead() bool { return w.draw.Settings.Order == share.Expected }

// unkept returns the free capacity of a node that its leader reserves for no other job.
func (w *World) unkept(p *process, m *machine, job *messages.JobRecord) topology.Capacity {
	c := m.proc.node.Ledger().Capacity().Less(w.books.sparesOn(string(m.id), job.Id))
	if p == nil || p.leader == nil {
		return c
	}
	return leftOf(c.Less(p.leader.KeptForOthers(m.id, topology.JobID(job.Id))))
}

// leftOf returns the capacity left for other jobs if the reserved capacity may exceed the free capacity. While a
// reserved GPU is missing, whole or in part, no part is left, because any free part may be needed for it. A missing
// share is a part below zero, and the smallest part is the last.
func leftOf(c topology.Capacity) topology.Capacity {
	if lacksGPU(c) {
		c.Parts = nil
	}
	return c.Floored()
}

// lacksGPU reports whether more GPUs, or a larger share of one, were subtracted than were free.
func lacksGPU(c topology.Capacity) bool {
	n := len(c.Parts)
	return c.WholeGPUs < 0 || n > 0 && c.Parts[n-1] < 0
}

// locality returns how long a gang may wait for close nodes although it has had capacity since an instant. The result
// is 0 unless the nodes in service of one domain could hold it.
func (w *World) locality(page *jobPage, room instant) time.Duration {
	spec := page.record.Spec
	if !w.ahead() || spec.GetGang().GetReplicasMin() < 2 && spec.Each != nil || !w.holdsClose(spec) {
		return 0
	}
	return max(w.draw.Settings.Locality, min(room.since(page.since)/2, w.draw.Settings.LocalityMost))
}

// holdsClose reports whether a domain closer than a job requires could hold it, if the domain's nodes in service were
// idle.
func (w *World) holdsClose(spec *messages.JobSpec) bool {
	p, close := w.leader(), copyOf(spec)
	for _, level := range w.draw.Levels {
		close.Topology = &messages.TopologySpec{Required: level}
		if level != spec.GetTopology().GetRequired() && p != nil && p.leader != nil &&
			w.fits(close, func(m *machine) (topology.Capacity, bool) { return m.empty(), w.isServing(p, m) }) {
			return true
		}
	}
	return false
}

// isServing reports whether a node takes new work, by its own state and by its leader's view.
func (w *World) isServing(p *process, m *machine) bool {
	_, closed, _ := p.leader.View(m.id)
	return closed == "" && w.open(m)
}

// trulyWaits reports whether nothing is about to happen to a job that is queued in the store. An attempt, a hold or a
// cancel may not be on disk yet, or an earlier attempt may lack exit confirmations.
func (c *headRuns) trulyWaits(w *World, page *jobPage) bool {
	id := page.record.Id
	if at, tried := c.tried[id]; tried && w.engine.now.since(at) < 20*time.Second {
		return false
	}
	for _, a := range w.client.asks { //order: any will do
		switch m := a.message.(type) {
		case *messages.Cancel, *messages.Hold, *messages.Requeue, *messages.Update:
			if m.(interface{ GetJob() string }).GetJob() == id {
				return false
			}
		}

	}
	return !w.books.owes(page) && !w.books.awaitsVictims(page)
}

func (c *headRuns) waits(w *World, page *jobPage) bool {
	r := page.record
	return r.State == messages.JobState_JOB_STATE_QUEUED && r.Hold == nil && r.Cancel == nil && !c.backsOff(w, r) &&
		!c.beginsLater(w, r) && !w.books.follows(r) && !w.standsAside(r) && !(r.UidToCome && w.uidsRanOut())
}

// beginsLater reports whether a job may wait for its begin time. A leader reads its wall clock once a minute.
func (c *headRuns) beginsLater(w *World, r *messages.JobRecord) bool {
	if r.BeginsUnixMs() == 0 {
		return false
	}
	if p := w.leader(); p == nil || p.clock.wall(w.engine.now) < r.BeginsUnixMs() {
		c.early[r.Id] = w.engine.now
	}
	at, ok := c.early[r.Id]
	return ok && w.engine.now.since(at) < time.Minute+10*time.Second
}

// first returns the first job of the queue.
func (c *headRuns) first(w *World) *jobPage {
	return c.firstOf(w, anyJob)
}

// firstOf returns the first of these jobs.
func (c *headRuns) firstOf(w *World, these func(*messages.JobRecord) bool) *jobPage {
	var head *jobPage
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		r := page.record
		if !these(r) || !c.waits(w, page) {
			continue
		}
		if head == nil || ahead(r, head.record) {
			head = page
		}
	}
	return head
}

// surelyFirst reports whether no job ahead of this one may be in the queue. The leader's clock may have ended the
// backoff of such a job. Nodes rest until the first job in the queue needs them.
func (c *headRuns) surelyFirst(w *World, head *jobPage) bool {
	return !slices.ContainsFunc(w.books.ids, func(id string) bool {
		r := w.books.jobs[id].record
		return r.State == messages.JobState_JOB_STATE_QUEUED && r.Hold == nil && r.Cancel == nil && c.backsOff(w, r) &&
			ahead(r, head.record)
	})
}

// ahead compares two jobs by the order of the queue.
func ahead(a, b *messages.JobRecord) bool {
	arrived := func(r *messages.JobRecord) uint64 { return cmp.Or(r.Spec.GetElement().GetArrival(), r.Arrival) }
	return a.Spec.Priority > b.Spec.Priority || a.Spec.Priority == b.Spec.Priority && arrived(a) < arrived(b)
}

// backsOff reports whether the job waits by its own backoff. The wall clock that it waits for may have jumped by up to
// two hours. Each leader limits this wait to its backoff and the time in which lost members stop by themselves. The
// wait counts from the last exit confirmation of an earlier attempt.
func (c *headRuns) backsOff(w *World, r *messages.JobRecord) bool {
	since := max(w.books.jobs[r.Id].since, c.wrote[r.Id], w.ledSince, w.healedAt)
	fence := 2 * time.Duration(r.Spec.GetStopWhenLostMs()) * time.Millisecond
	return r.NotBeforeUnixMs > 0 && w.engine.now.since(since) < w.constants.BackoffCap+fence+2*time.Minute
}
