// Package preempt decides which jobs may be stopped for which, and selects victims so that a gang fits. It is pure and
// only selects: it stops no job.
package preempt

// This file selects complete gangs as victims so that another gang fits. It minimizes the lost work and selects no
// victim without need. It tries changes on the view and rolls them back. look.go decides which jobs may be victims.
//
// Selecting the cheapest until the gang fits would stop ten jobs instead of the one in the way. Selecting the fewest
// would stop a month of work instead of ten minutes. With few candidates, the code therefore searches all sets. With
// many, it takes candidates in three different orders until the gang fits. It then removes victims one by one, most
// expensive first, as long as the gang still fits.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Candidate is a complete gang that may be stopped.
type Candidate struct {
	Victim
	Room topology.Placement // capacity that becomes free

	// The following fields are used only by Look.
	grace int64
	hold  *share.Hold
	needs []int64
	loans []*share.Branch // queues that must exceed their quotas
}

// Law has the rules for victims in addition to capacity. It tracks the selected victims.
type Law interface {
	// Add selects one more victim, unless the rules forbid it next to the others. A victim that is refused next to
	// some others must also be refused next to more.
	Add(i int) bool
	// Drop removes a selected victim.
	Drop(i int)
	// Enough reports whether the gang may start at a placement after the selected victims have gone, apart from
	// capacity. If it is true for some victims, it must be true for more.
	Enough(p topology.Placement) bool
}

const (
	// searched is the maximum number of candidates of an exhaustive search.
	searched = 24
	// triesFew limits the placements of an exhaustive search in a small cluster, and triesMany in a cluster with
	// more than smallCluster nodes.
	triesFew, triesMany = 6000, 400
	smallCluster        = 64
	// firstStep is the number of victims that are added before the first placement.
	firstStep = 16
)

// hunt is one search.
type hunt struct {
	view   *topology.Tree
	gang   *topology.Gang
	lent   topology.Lent
	all    []Candidate
	law    Law
	chosen []int
	// A candidate has a share of a device; the share may move to another device when it is given back and taken
	// again.
	shared  bool
	mark    topology.Mark // before the first victim was selected
	tries   int
	refusal topology.Refusal
	at      []topology.NodeID // nodes of the gang if all victims of the first selection are stopped

	best  []int
	place topology.Placement
	lost  int64
	any   bool
}

// Victims selects victims so that the complete gang fits on free capacity, lent capacity and the capacity of the
// victims. It also returns the placement. It does not change the view. The law may be nil.
func Victims(view *topology.Tree, gang *topology.Gang, lent topology.Lent, all []Candidate, law Law) (
	stop []int, place topology.Placement, ok bool,
) {
	h := &hunt{view: view, gang: gang, lent: lent, all: all, law: law, tries: triesFew}
	if h.law == nil {
		h.law = lawless{}
	}
	if view.Len() > smallCluster {
		h.tries = triesMany
	}
	for i := range all {
		h.shared = h.shared || slices.ContainsFunc(all[i].Room.Slots, func(s topology.Slot) bool {
			return s.Amount.MilliGPU%topology.WholeGPU != 0
		})
	}
	h.mark = view.Mark()
	most := len(all)
	for i, order := range h.orders() {
		tried, grown := h.grow(order, most)
		if grown {
			h.reduce()
		}
		if h.back(0); i == 0 && grown {
			most = min(max(4*tried, 4*firstStep), len(all))
		} else if i == 0 && len(all) > searched {
			break // all candidates together were not enough, so other orders are not either
		}
	}
	if len(all) <= searched && !h.shared {
		h.search()
		h.back(0)
	}
	view.Rollback(h.mark)
	return h.best, h.place, h.any
}

// lawless refuses no victim.
type lawless struct{}

func (lawless) Add(int) bool                   { return true }
func (lawless) Drop(int)                       {}
func (lawless) Enough(topology.Placement) bool { return true }

// fits reports whether the gang fits after the selected victims have gone, and where. A limit may allow fewer nodes
// than the first placement uses.
func (h *hunt) fits() (topology.Placement, bool) {
	p, ok := topology.PlaceLent(h.view, h.gang, h.lent, &h.refusal)
	if ok && len(h.at) > 0 && !h.law.Enough(p) {
		there := *h.gang
		there.Only = h.at
		p, ok = topology.PlaceLent(h.view, &there, h.lent, &h.refusal)
	}
	return p, ok && h.law.Enough(p)
}

// add selects a victim and gives its capacity back.
func (h *hunt) add(i int) bool {
	if !h.law.Add(i) {
		return false
	}
	h.view.Give(h.all[i].Room)
	h.chosen = append(h.chosen, i)
	return true
}

// back keeps only the first n selected victims.
func (h *hunt) back(n int) { h.choose(slices.Clone(h.chosen[:n])) }

// choose keeps only these selected victims.
func (h *hunt) choose(these []int) {
	if len(these) == len(h.chosen) {
		return
	}
	if !h.shared && len(these) > 0 {
		stays := map[int]bool{}
		for _, i := range these {
			stays[i] = true
		}
		for _, i := range h.chosen {
			if !stays[i] {
				h.law.Drop(i)
				h.view.Take(h.all[i].Room)
			}
		}
		h.chosen = these
		return
	}
	h.again(these)
}

// again selects exactly these victims, in the order of the candidates, because the positions of shares depend on the
// order in which they are given back.
func (h *hunt) again(these []int) {
	for _, i := range h.chosen {
		h.law.Drop(i)
	}
	h.view.Rollback(h.mark)
	h.mark, h.chosen = h.view.Mark(), nil
	// Earlier victims are added first, so that they are not refused because of later ones.
	for _, i := range these {
		if h.law.Add(i) {
			h.chosen = append(h.chosen, i)
		}
	}
	for _, i := range slices.Sorted(slices.Values(h.chosen)) {
		h.view.Give(h.all[i].Room)
	}
}

// drop removes one selected victim.
func (h *hunt) drop(v int) {
	if h.shared {
		h.choose(slices.DeleteFunc(slices.Clone(h.chosen), func(i int) bool { return i == v }))
		return
	}
	h.chosen = slices.DeleteFunc(h.chosen, func(i int) bool { return i == v })
	h.law.Drop(v)
	h.view.Take(h.all[v].Room)
}

func (h *hunt) addAll(these []int) {
	if h.shared {
		h.again(slices.Concat(h.chosen, these))
		return
	}
	for _, i := range these {
		h.add(i)
	}
}

// orders returns the candidates in three orders. The first goes node by node, for gangs that need whole nodes. The
// second is by the least lost work per amount, and the third by the least lost work.
func (h *hunt) orders() [3]candidateHeap {
	var all [3]candidateHeap
	for i := range all {
		all[i] = make(candidateHeap, len(h.all))
	}
	numbers := make(map[topology.NodeID]int32, h.view.Len())
	// By number; the numbers of all slots.
	on, slots := make([]int64, 0, h.view.Len()), make([]int32, 0, len(h.all))
	for i := range h.all {
		c, gives := &h.all[i], int64(0)
		for _, s := range c.Room.Slots {
			gives += amountOf(s.Amount)
		}
		for _, s := range c.Room.Slots {
			n, known := numbers[s.Node]
			if !known {
				n = int32(len(on))
				numbers[s.Node], on = n, append(on, 0)
			}
			on[n] += topology.Scaled(c.Lost, amountOf(s.Amount), max(gives, 1))
			slots = append(slots, n)
		}
		all[1][i] = candidate{topology.Scaled(c.Lost, 1<<20, max(gives, 1)), i}
		all[2][i] = candidate{c.Lost, i}
	}
	for i := range h.all {
		all[0][i].i = i
		its := len(h.all[i].Room.Slots)
		for _, n := range slots[:its] {
			all[0][i].key = max(all[0][i].key, on[n])
		}
		slots = slots[its:]
	}
	return all
}

// candidateHeap returns candidates in order, one after another. It does not sort them all, because a few of many
// candidates usually suffice.
type candidateHeap []candidate

type candidate struct {
	key int64
	i   int
}

func (l candidateHeap) before(a, b int) bool {
	if l[a].key != l[b].key {
		return l[a].key < l[b].key
	}
	return l[a].i < l[b].i
}

// first removes the first n candidates and returns them in order.
func (l *candidateHeap) first(n int) []int {
	some := make([]int, 0, n)
	for range n {
		last := len(*l) - 1
		some = append(some, (*l)[0].i)
		(*l)[0] = (*l)[last]
		*l = (*l)[:last]
		l.down(0)
	}
	return some
}

func (l candidateHeap) ready() {
	for i := len(l)/2 - 1; i >= 0; i-- {
		l.down(i)
	}
}

func (l candidateHeap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l); child++ {
			if l.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		l[i], l[least] = l[least], l[i]
		i = least
	}
}

// amountOf returns the amount of a node's resources as one number, dominated by GPUs.
func amountOf(r topology.Resources) int64 { return r.MilliGPU*64 + r.MilliCPU }

// grow selects the shortest prefix of an order, of at most most candidates, with which the gang fits. It returns false
// if the gang does not fit with all of them.
func (h *hunt) grow(rest candidateHeap, most int) (tried int, ok bool) {
	rest.ready()
	var step []int
	base := 0 // selected victims without the last step
	for n := firstStep; ; n *= 2 {
		if _, ok := h.fits(); ok {
			break
		}
		if n = min(n, most-tried, len(rest)); n == 0 {
			return tried, false
		}
		step, base, tried = rest.first(n), len(h.chosen), tried+n
		h.addAll(step)
	}
	for len(step) > 1 { // without the step the gang does not fit, with it the gang fits
		half := len(step) / 2
		h.back(base)
		h.addAll(step[:half])
		if _, ok := h.fits(); ok {
			step = step[:half]
			continue
		}
		step, base = step[half:], len(h.chosen)
		h.addAll(step)
	}
	return tried, true
}

// reduce removes victims that are not needed, most expensive first. It stores the result if it is the best so far.
func (h *hunt) reduce() {
	p, ok := h.fits()
	if !ok {
		return
	}
	h.at = p.Nodes()
	before := slices.Clone(h.chosen)
	h.choose(slices.DeleteFunc(slices.Clone(before), func(i int) bool {
		return !slices.ContainsFunc(h.all[i].Room.Slots, func(s topology.Slot) bool { return slices.Contains(h.at, s.Node) })
	}))
	if _, ok := h.fits(); !ok { // a limit needs victims on other nodes
		h.back(0)
		h.addAll(before)
	}
	for _, v := range h.dearest(h.chosen) {
		h.drop(v)
		if _, ok := h.fits(); !ok {
			h.addAll([]int{v})
		}
	}
	h.remember()
}

// dearest sorts candidates by lost work, most first.
func (h *hunt) dearest(these []int) []int {
	order := slices.Clone(these)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.all[b].Lost, h.all[a].Lost), cmp.Compare(h.all[a].Job, h.all[b].Job))
	})
	return order
}

// remember stores the selected victims if they are the best so far.
func (h *hunt) remember() {
	lost := int64(0)
	for _, i := range h.chosen {
		lost += h.all[i].Lost
	}
	if h.any && (lost > h.lost || lost == h.lost && len(h.chosen) >= len(h.best)) {
		return
	}
	if p, ok := h.fits(); ok {
		h.any, h.lost, h.place, h.best = true, lost, p, slices.Sorted(slices.Values(h.chosen))
	}
}

// search tries all sets of a few candidates that could be better than the best.
func (h *hunt) search() {
	all := make([]int, len(h.all))
	for i := range all {
		all[i] = i
	}
	h.descend(h.dearest(all), 0, false)
	h.addAll(h.best)
	h.reduce() // after an early end of the search, a victim may be unnecessary
}

// descend decides on each remaining candidate, and first tries without the most expensive one. If refused is true, the
// gang does not fit with the selected victims.
func (h *hunt) descend(rest []int, lost int64, refused bool) {
	if h.any && lost >= h.lost || h.tries <= 0 {
		return
	}
	if h.tries--; !refused {
		if _, ok := h.fits(); ok {
			h.remember()
			return
		}
	}
	if len(rest) == 0 || !h.enough(rest) {
		return
	}
	h.descend(rest[1:], lost, true)
	mark, n := h.view.Mark(), len(h.chosen)
	if h.add(rest[0]) {
		h.descend(rest[1:], lost+h.all[rest[0]].Lost, false)
		h.law.Drop(rest[0])
		h.chosen = h.chosen[:n]
	}
	h.view.Rollback(mark)
}

// enough reports whether there would be enough capacity if all the rest were stopped, regardless of the law.
func (h *hunt) enough(rest []int) bool {
	mark := h.view.Mark()
	for _, i := range rest {
		h.view.Give(h.all[i].Room)
	}
	_, ok := topology.PlaceLent(h.view, h.gang, h.lent, &h.refusal)
	h.view.Rollback(mark)
	return ok
}
