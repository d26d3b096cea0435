package policy

// This file owns limits: what a queue, and one owner in it, never has more of. They are conditions beside the room, and
// never a reservation of it, so a job that is over one blocks nobody. And it owns what is said of quotas and limits.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Over is a limit that a job would exceed.
type Over struct {
	Queue string
	Owner string // "": it is of the queue as a whole
	What  string // an amount's name, or machines, or running jobs
	Has   int64
	Most  int64
	Asks  int64 // what the job takes of it; 0: not known
	each  bool  // it is of each owner, whoever that is
	fixed bool  // it is what is assured, to jobs that are not to be stopped
}

// String is the answer to why the job waits.
func (o *Over) String() string {
	switch {
	case o.fixed && o.What == "":
		return fmt.Sprintf("%s is assured nothing, and the job is not to be stopped (preemptible: false)", o.Queue)
	case o.fixed:
		return fmt.Sprintf("%s has %s of %s %s assured in jobs that are not to be stopped, as this one",
			o.Queue, amountText(o.What, o.Has), amountText(o.What, o.Most), o.What)
	}
	who, where := o.Queue, ""
	if o.Owner != "" {
		who, where = o.Owner, " in "+o.Queue
	}
	return fmt.Sprintf("%s uses %s of at most %s %s%s",
		who, amountText(o.What, o.Has), amountText(o.What, o.Most), o.What, where)
}

// Words are the answer with what the job asks for, and the way out.
func (o *Over) Words() string {
	text := o.String()
	if o.What != "" && o.What != ofRunning && o.Asks > 0 {
		text += fmt.Sprintf(", and this asks for %s", amountText(o.What, o.Asks))
	}
	switch {
	case o.fixed && o.What == "":
		return text + ": without that it may start on what is idle"
	case o.fixed:
		return text + ": it starts when enough of those end, and without that it may start on what is idle"
	case o.Owner != "":
		return text + ": it starts when enough of " + o.Owner + "'s jobs there end"
	}
	return text + ": it starts when enough of its jobs end; another queue may have room"
}

// amountText writes an amount for people.
func amountText(name string, n int64) string {
	switch name {
	case ofMachines, ofRunning:
		return strconv.FormatInt(n, 10)
	case share.AmountMemory:
		return strconv.FormatInt(n>>30, 10) + " GiB"
	}
	text := strconv.FormatInt(n/1000, 10)
	if n%1000 != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", n%1000), "0")
	}
	return text
}

// What one owner may have beside amounts.
const (
	ofMachines = "machines"
	ofRunning  = "running jobs"
)

// over finds a limit that a job would exceed on these machines; nil: none.
func (s *shares) over(leaf *branch, owner string, needs []int64, nodes []topology.NodeID) *Over {
	for h := leaf; h != nil; h = h.parent {
		if i := exceeded(h.limit, h.has, needs); i >= 0 {
			return &Over{Queue: h.name, What: s.amounts[i], Has: h.has[i], Most: h.limit[i], Asks: needs[i]}
		}
		if !h.eachIsLimited() {
			continue
		}
		o := h.owned[owner]
		if o == nil {
			o = &holding{has: make([]int64, len(s.amounts))}
		}
		if i := exceeded(h.each.amounts, o.has, needs); i >= 0 {
			return &Over{
				Queue: h.name, Owner: owner, What: s.amounts[i], Has: o.has[i], Most: h.each.amounts[i], Asks: needs[i],
			}
		}
		if most := h.each.running; most >= 0 && o.running+1 > most {
			return &Over{Queue: h.name, Owner: owner, What: ofRunning, Has: o.running, Most: most}
		}
		if most := h.each.machines; most >= 0 && o.with(nodes) > most {
			return &Over{Queue: h.name, Owner: owner, What: ofMachines, Has: int64(len(o.on)), Most: most}
		}
	}
	return nil
}

// Never says what would never be allowed.
func (o *Over) Never() string {
	whose := o.Queue + " has at most "
	if o.each {
		whose = "one owner in " + whose
	}
	return fmt.Sprintf("it takes %s %s, and %s%s", amountText(o.What, o.Has), o.What, whose, amountText(o.What, o.Most))
}

// Never is a limit that a job would exceed even if nothing else ran, with what the job takes of it; nil: none.
func (j *Judgement) Never(g *topology.Gang, traits *estimate.Traits) *Over {
	if j.shares == nil {
		return nil
	}
	s, machines := j.shares, int64(1)
	if g.Apart {
		machines = int64(g.Replicas)
	}
	needs, none := s.needs(traits.Pool, estimate.TotalOf(g)), make([]int64, len(s.amounts))
	for h := s.named[cmp.Or(traits.Queue, s.usual)]; h != nil; h = h.parent {
		if i := exceeded(h.limit, none, needs); i >= 0 {
			return &Over{Queue: h.name, What: s.amounts[i], Has: needs[i], Most: h.limit[i]}
		}
		over := Over{Queue: h.name, Owner: traits.Owner, each: true}
		if i := exceeded(h.each.amounts, none, needs); i >= 0 {
			over.What, over.Has, over.Most = s.amounts[i], needs[i], h.each.amounts[i]
		} else if most := h.each.running; most == 0 {
			over.What, over.Has, over.Most = ofRunning, 1, most
		} else if most := h.each.machines; most >= 0 && machines > most {
			over.What, over.Has, over.Most = ofMachines, machines, most
		}
		if over.What != "" {
			return &over
		}
	}
	return nil
}

// beyond finds what is assured to a queue and would not hold all in it that is not to be stopped; nil: nothing.
func (s *shares) beyond(leaf *branch, needs []int64) *Over {
	assured := false
	for h := leaf; h != nil; h = h.parent {
		assured = assured || h.assured
		if i := exceeded(h.quota, h.fixed, needs); i >= 0 {
			return &Over{
				Queue: h.name, What: s.amounts[i], Has: h.fixed[i], Most: h.quota[i], Asks: needs[i], fixed: true,
			}
		}
	}
	if !assured {
		return &Over{Queue: leaf.name, fixed: true}
	}
	return nil
}

func (h *branch) eachIsLimited() bool {
	return h.each.running >= 0 || h.each.machines >= 0 ||
		slices.ContainsFunc(h.each.amounts, func(n int64) bool { return n >= 0 })
}

// exceeded is which amount would be more than it may; below 0: none.
func exceeded(most, has, needs []int64) int {
	for i := range most {
		if most[i] >= 0 && needs[i] > 0 && has[i]+needs[i] > most[i] {
			return i
		}
	}
	return -1
}

// with counts the machines of an owner with some more, each once.
func (o *holding) with(nodes []topology.NodeID) int64 {
	n := int64(len(o.on))
	for _, node := range nodes {
		if _, ok := o.on[node]; !ok {
			n++
		}
	}
	return n
}

// isOver reports whether a job would exceed a limit, and remembers which. Where it is to go is not always known yet.
// What firm promises were made before counts as if it had started: else one who came later would take the last of a
// limit, and those that were stopped for the promise were stopped for nobody.
func (j *Judgement) isOver(b *burst, e *entry, p *topology.Placement) bool {
	if j.shares == nil {
		return false
	}
	leaf, needs := j.leafOf(b), b.needs
	if b.asked = j.round; !e.Fixed && !leaf.isLimited() {
		b.over = nil
		return false
	}
	var nodes []topology.NodeID
	if p != nil {
		nodes = p.Nodes()
	}
	own := e.promised
	if own != nil && (!own.firm || p != nil && len(besides(p.Slots, own.place.Slots)) > 0) {
		own = nil // elsewhere it comes after all of them
	}
	before := j.promisedFirmly(e, own)
	j.shares.countAll(before, 1)
	if b.over = j.shares.over(leaf, e.Owner, needs, nodes); b.over == nil && e.Fixed {
		b.over = j.shares.beyond(leaf, needs)
	}
	j.shares.countAll(before, -1)
	return b.over != nil
}

// promisedFirmly is what other jobs will have that hold a firm promise and have not been started: of a job that starts
// on its own promise, those that were given theirs before. Some may be left out.
func (j *Judgement) promisedFirmly(e *entry, own *promise, but ...*promise) (all []*hold) {
	for _, p := range slices.Concat(j.firm, j.parked()) {
		isLater := own != nil && byOrder(own, p) < 0
		if p.e.Job == e.Job || isLater || j.shares.jobs[p.e.Job] != nil || slices.Contains(but, p) {
			continue
		}
		x := &hold{
			queue: p.e.Queue, owner: p.e.Owner, pool: p.pool, nodes: p.place.Nodes(), fixed: p.e.Fixed,
			leaf: j.shares.leaf(p.e.Queue, p.e.Owner),
		}
		for i := range p.place.Slots { // of one that is inherited nothing else may be known yet
			x.total = x.total.Plus(p.place.Slots[i].Amount)
		}
		all = append(all, x)
	}
	return all
}

// isLimited reports whether a queue or one above it has a limit.
func (h *branch) isLimited() bool {
	for ; h != nil; h = h.parent {
		if h.eachIsLimited() || slices.ContainsFunc(h.limit, func(n int64) bool { return n >= 0 }) {
			return true
		}
	}
	return false
}

// Obey has the planner go by queues; nil: by none. What runs is counted on, and what was used is kept by the names of
// the queues.
func (j *Judgement) Obey(q *share.Queues) {
	was := j.shares
	if j.shares = nil; q == nil {
		return
	}
	j.shares = newShares(q, j.settings.Order)
	if was != nil {
		j.shares.follow(was, j.now)
	}
	for _, p := range j.firm {
		if onLoan := j.isOnLoan(p); onLoan != p.onLoan {
			p.onLoan, p.unsaid = onLoan, true
		}
	}
}

// settleShares counts no more what has ended since the last pass.
func (j *Judgement) settleShares() {
	for _, x := range j.ended {
		if j.shares != nil {
			j.shares.give(x.job, j.now, x.forgiven)
		}
	}
	j.ended = j.ended[:0]
}

// endedJob is one that holds nothing any more. What it used is forgiven where it never ran.
type endedJob struct {
	job      topology.JobID
	forgiven bool
}

// Over is the limit that kept a waiting job from starting in the last pass; nil: none did.
func (j *Judgement) Over(job topology.JobID) *Over {
	if j.queue == nil {
		return nil // there was no pass yet
	}
	e := j.queue.jobs[job]
	if e == nil || e.burst == nil {
		return nil
	}
	return j.overOf(e.burst, e)
}

// overOf is the limit that kept a burst from going on with this job.
func (j *Judgement) overOf(b *burst, e *entry) *Over {
	if b.asked != j.round { // the pass was through before its turn
		j.isOver(b, e, nil)
	}
	return b.over
}

// Share says how a job's queue stands to what it is assured, and which queues beside it have more than theirs; "" where
// nothing is assured to it.
func (j *Judgement) Share(job topology.JobID) string {
	e := j.queue.jobs[job]
	if e == nil || j.shares == nil {
		return ""
	}
	for h := j.shares.leaf(e.Queue, e.Owner); h.parent != nil; h = h.parent {
		for i, quota := range h.quota {
			if quota < 0 || e.burst == nil || e.burst.needs[i] == 0 {
				continue
			}
			text := fmt.Sprintf("%s uses %s of %s assured", h.name, amountText(j.shares.amounts[i], h.has[i]),
				amountText(j.shares.amounts[i], quota))
			for _, o := range h.parent.below {
				if on := o.has[i] - max(o.quota[i], 0); o != h && on > 0 {
					text += fmt.Sprintf("; %s has %s on loan", o.name, amountText(j.shares.amounts[i], on))
				}
			}
			return text
		}
	}
	return ""
}
