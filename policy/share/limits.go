package share

// This file has the limits of queues, and of one owner in a queue. Limits are conditions in addition to capacity. They
// reserve nothing, so a job that exceeds a limit delays no other job. The file also describes quotas and limits as
// text.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/topology"
)

// Over is a limit that a job would exceed.
type Over struct {
	Queue string
	Owner string // "": the limit applies to the complete queue
	What  string // name of an amount, or machines, or running jobs
	Has   int64
	Most  int64
	Asks  int64 // request of the job; 0: unknown
	each  bool  // the limit applies to each owner
	fixed bool  // the limit is the quota, for jobs that must not be stopped
	// On has the nodes that the owner already uses, if this is a limit of nodes.
	On map[topology.NodeID]int
}

// IsOfNodes reports whether the limit bounds the nodes of one owner. A placement on fewer nodes may respect it.
func (o *Over) IsOfNodes() bool { return o.What == ofMachines && !o.each }

// String returns the reason why the job waits.
func (o *Over) String() string {
	switch {
	case o.fixed && o.What == "":
		return fmt.Sprintf("%s has no quota, which a job with preemptible: false needs", o.Queue)
	case o.fixed:
		return fmt.Sprintf("%s uses %s of its quota of %s %s for jobs with preemptible: false",
			o.Queue, amountText(o.What, o.Has), amountText(o.What, o.Most), o.What)
	}
	who, where := o.Queue, ""
	if o.Owner != "" {
		who, where = o.Owner, " in "+o.Queue
	}
	return fmt.Sprintf("%s uses %s of at most %s %s%s",
		who, amountText(o.What, o.Has), amountText(o.What, o.Most), o.What, where)
}

// Words returns the reason with the job's request and a suggestion.
func (o *Over) Words() string {
	text := o.String()
	if o.What != "" && o.What != ofRunning && o.Asks > 0 {
		text += fmt.Sprintf(", and this job requests %s", amountText(o.What, o.Asks))
	}
	switch {
	case o.fixed && o.What == "":
		return text + ": a preemptible job may start on idle nodes"
	case o.fixed:
		return text + ": it starts when enough of those jobs end; a preemptible job may start on idle nodes"
	case o.Owner != "":
		return text + ": it starts when enough jobs of " + o.Owner + " in that queue end"
	}
	return text + ": it starts when enough jobs of this queue end; another queue may have free capacity"
}

// nameColumns is the maximum width of a name in a short reason.
const nameColumns = 16

// Short returns a short reason: "nlp uses 120 of 128 GPUs".
func (o *Over) Short() string {
	queue := topology.Cut(o.Queue, nameColumns)
	noun := o.What
	switch o.What {
	case AmountGPU:
		noun = "GPUs"
	case AmountCPU:
		noun = "CPUs"
	case ofMachines:
		noun = "nodes"
	}
	amount := amountText(o.What, o.Has) + " of " + amountText(o.What, o.Most) + " " + topology.Cut(noun, nameColumns)
	switch {
	case o.fixed && o.What == "":
		return queue + " has no quota for non-preemptible jobs"
	case o.fixed:
		return queue + " uses " + amount + " without preemption"
	case o.Owner != "":
		return topology.Cut(o.Owner, nameColumns) + " uses " + amount + " in " + queue
	}
	return queue + " uses " + amount
}

// amountText formats an amount.
func amountText(name string, n int64) string {
	switch name {
	case ofMachines, ofRunning:
		return strconv.FormatInt(n, 10)
	case AmountMemory:
		return strconv.FormatInt(n>>30, 10) + " GiB"
	}
	text := strconv.FormatInt(n/1000, 10)
	if n%1000 != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", n%1000), "0")
	}
	return text
}

// Limits of one owner in addition to amounts.
const (
	ofMachines = "machines"
	ofRunning  = "running jobs"
)

// Over returns a limit that a job would exceed on these nodes, or nil.
func (s *Tree) Over(leaf *Branch, owner string, needs []int64, nodes []topology.NodeID) *Over {
	for h := leaf; h != nil; h = h.Parent {
		if i := exceeded(h.limit, h.has, needs); i >= 0 {
			return &Over{Queue: h.Name, What: s.amounts[i], Has: h.has[i], Most: h.limit[i], Asks: needs[i]}
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
				Queue: h.Name, Owner: owner, What: s.amounts[i], Has: o.has[i], Most: h.each.amounts[i], Asks: needs[i],
			}
		}
		if most := h.each.running; most >= 0 && o.running+1 > most {
			return &Over{Queue: h.Name, Owner: owner, What: ofRunning, Has: o.running, Most: most}
		}
		if most := h.each.machines; most >= 0 && o.with(nodes) > most {
			return &Over{
				Queue: h.Name, Owner: owner, What: ofMachines, Has: int64(len(o.on)), Most: most, On: maps.Clone(o.on),
			}
		}
	}
	return nil
}

// Never returns the text for a limit that a job always exceeds.
func (o *Over) Never() string {
	whose := o.Queue + " has at most "
	if o.each {
		whose = "one owner in " + whose
	}
	return fmt.Sprintf("it takes %s %s, and %s%s", amountText(o.What, o.Has), o.What, whose, amountText(o.What, o.Most))
}

// Never returns a limit that a job would exceed even if nothing else ran, with the job's request. It returns nil if
// there is none. machines is the minimum number of nodes that the job uses.
func (s *Tree) Never(queue, owner string, needs []int64, machines int64) *Over {
	none := make([]int64, len(s.amounts))
	for h := s.named[cmp.Or(queue, s.usual)]; h != nil; h = h.Parent {
		if i := exceeded(h.limit, none, needs); i >= 0 {
			return &Over{Queue: h.Name, What: s.amounts[i], Has: needs[i], Most: h.limit[i]}
		}
		over := Over{Queue: h.Name, Owner: owner, each: true}
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

// Beyond returns the quota that a job would exceed together with all jobs of the queue that must not be stopped, or
// nil.
func (s *Tree) Beyond(leaf *Branch, needs []int64) *Over {
	assured := false
	for h := leaf; h != nil; h = h.Parent {
		assured = assured || h.Assured
		if i := exceeded(h.quota, h.fixed, needs); i >= 0 {
			return &Over{
				Queue: h.Name, What: s.amounts[i], Has: h.fixed[i], Most: h.quota[i], Asks: needs[i], fixed: true,
			}
		}
	}
	if !assured {
		return &Over{Queue: leaf.Name, fixed: true}
	}
	return nil
}

func (h *Branch) eachIsLimited() bool {
	return h.each.running >= 0 || h.each.machines >= 0 ||
		slices.ContainsFunc(h.each.amounts, func(n int64) bool { return n >= 0 })
}

// exceeded returns the index of the first exceeded amount, or -1.
func exceeded(most, has, needs []int64) int {
	for i := range most {
		if most[i] >= 0 && needs[i] > 0 && has[i]+needs[i] > most[i] {
			return i
		}
	}
	return -1
}

// with returns the number of an owner's nodes after adding some, each counted once.
func (o *holding) with(nodes []topology.NodeID) int64 {
	n := int64(len(o.on))
	for _, node := range nodes {
		if _, ok := o.on[node]; !ok {
			n++
		}
	}
	return n
}

// IsLimited reports whether a queue or an ancestor has a limit.
func (h *Branch) IsLimited() bool {
	for ; h != nil; h = h.Parent {
		if h.eachIsLimited() || slices.ContainsFunc(h.limit, func(n int64) bool { return n >= 0 }) {
			return true
		}
	}
	return false
}

// Standing describes the usage of a queue relative to its quota, for the amounts that a job needs. It also names the
// sibling queues that exceed their quotas. It returns "" if the queue has no quota.
func (s *Tree) Standing(leaf *Branch, needs []int64) string {
	for h := leaf; h.Parent != nil; h = h.Parent {
		for i, quota := range h.quota {
			if quota < 0 || len(needs) == 0 || needs[i] == 0 {
				continue
			}
			text := fmt.Sprintf("%s uses %s of its quota of %s", h.Name, amountText(s.amounts[i], h.has[i]),
				amountText(s.amounts[i], quota))
			for _, o := range h.Parent.below {
				if on := o.has[i] - max(o.quota[i], 0); o != h && on > 0 {
					text += fmt.Sprintf("; %s borrows %s", o.Name, amountText(s.amounts[i], on))
				}
			}
			return text
		}
	}
	return ""
}
