// Package preempt says who may be stopped for whom, and finds whom to stop so that a gang fits. It is pure, and stops
// nobody.
package preempt

// This file owns whom to stop so that a gang fits: whole gangs, with as little lost work as can be found, and nobody
// who is not needed. All of it is tried on a mark and taken back: it stops nobody. Who may be stopped for whom is in
// look.go.
//
// The naive way, to stop the cheapest until the gang fits, stops ten where one was in the way; and to take the fewest
// stops a month's work where ten minutes' would do. Few candidates are therefore searched through. Of many it takes the
// first in three orders until the gang fits, then takes back one after another, the dearest first, while it still does.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Candidate is a gang that could be stopped, whole.
type Candidate struct {
	Victim
	Room topology.Placement // what comes free by it

	// The rest is what a Look goes by.
	grace int64
	hold  *share.Hold
	needs []int64
	loans []*share.Branch // that must have more than their quotas for it
}

// Law says what holds of whom is stopped beside the room. It keeps count of those that are chosen.
type Law interface {
	// Add chooses one more, unless that may not be beside those that are. What is refused beside some is refused beside
	// more.
	Add(i int) bool
	// Drop chooses one no more.
	Drop(i int)
	// Enough reports whether nothing but the room is in the way of a gang that goes there once those that are chosen
	// have gone. It is so beside more if it is beside some.
	Enough(p topology.Placement) bool
}

const (
	// searched is how many candidates are searched through.
	searched = 24
	// triesFew is how many places such a search tries in a small cluster, triesMany in one of more than smallCluster.
	triesFew, triesMany = 6000, 400
	smallCluster        = 64
	// firstStep is how many are given back before the first look.
	firstStep = 16
)

// hunt is one search.
type hunt struct {
	view    *topology.Fabric
	gang    *topology.Gang
	lent    topology.Lent
	all     []Candidate
	law     Law
	chosen  []int
	shared  bool          // one has a part of a device: what is given and taken again may lie elsewhere then
	mark    topology.Mark // before any was given back
	tries   int
	refusal topology.Refusal
	at      []topology.NodeID // where the gang goes if all that were chosen at first are stopped

	best  []int
	place topology.Placement
	lost  int64
	any   bool
}

// Victims finds whom to stop so that all of a gang fits on what is free, what is lent and what comes free by it, and
// where it then goes. It leaves the view as it was. The law may be nil.
func Victims(view *topology.Fabric, gang *topology.Gang, lent topology.Lent, all []Candidate, law Law) (
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
			break // all were given back, and another order gives no more
		}
	}
	if len(all) <= searched && !h.shared {
		h.search()
		h.back(0)
	}
	view.Rollback(h.mark)
	return h.best, h.place, h.any
}

// lawless refuses nobody.
type lawless struct{}

func (lawless) Add(int) bool                   { return true }
func (lawless) Drop(int)                       {}
func (lawless) Enough(topology.Placement) bool { return true }

// fits reports whether the gang does, and where, with those that are chosen given back. A limit may allow fewer
// machines than it would be placed on.
func (h *hunt) fits() (topology.Placement, bool) {
	p, ok := topology.PlaceLent(h.view, h.gang, h.lent, &h.refusal)
	if ok && len(h.at) > 0 && !h.law.Enough(p) {
		there := *h.gang
		there.Only = h.at
		p, ok = topology.PlaceLent(h.view, &there, h.lent, &h.refusal)
	}
	return p, ok && h.law.Enough(p)
}

// add chooses one and gives back what it has.
func (h *hunt) add(i int) bool {
	if !h.law.Add(i) {
		return false
	}
	h.view.Give(h.all[i].Room)
	h.chosen = append(h.chosen, i)
	return true
}

// back chooses only the first n.
func (h *hunt) back(n int) { h.choose(slices.Clone(h.chosen[:n])) }

// choose takes back all that are chosen but for these.
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

// again chooses these and nobody else, in the order of the candidates: where shares lie depends on the order in which
// they are given.
func (h *hunt) again(these []int) {
	for _, i := range h.chosen {
		h.law.Drop(i)
	}
	h.view.Rollback(h.mark)
	h.mark, h.chosen = h.view.Mark(), nil
	for _, i := range these { // those that were chosen first are not refused for others
		if h.law.Add(i) {
			h.chosen = append(h.chosen, i)
		}
	}
	for _, i := range slices.Sorted(slices.Values(h.chosen)) {
		h.view.Give(h.all[i].Room)
	}
}

// drop takes one back.
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

// orders returns those in which candidates are tried: machine by machine, for what needs a whole one; those that cost
// least for what they give; and the cheapest first.
func (h *hunt) orders() [3]candidateHeap {
	var all [3]candidateHeap
	for i := range all {
		all[i] = make(candidateHeap, len(h.all))
	}
	numbers := make(map[topology.NodeID]int32, h.view.Len())
	on, slots := make([]int64, 0, h.view.Len()), make([]int32, 0, len(h.all)) // by number; the numbers of all slots
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

// candidateHeap holds candidates of which the first come out first, and the others are in no order before they do: most
// often a few of many are enough.
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

// first takes the first n out, in their order.
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

// amountOf returns how much of a machine is given, where GPUs are what most want.
func amountOf(r topology.Resources) int64 { return r.MilliGPU*64 + r.MilliCPU }

// grow chooses the fewest of an order with which the gang fits, of so many at most; false: it does not with all.
func (h *hunt) grow(rest candidateHeap, most int) (tried int, ok bool) {
	rest.ready()
	var step []int
	base := 0 // that are chosen and not of the last step
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
	for len(step) > 1 { // without the step it does not fit, with it it does
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

// reduce takes back whoever is not needed, the dearest first, and remembers what is left if it is the best.
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
	if _, ok := h.fits(); !ok { // those elsewhere are in the way of a limit
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

// dearest lists some of the candidates, those that cost most first.
func (h *hunt) dearest(these []int) []int {
	order := slices.Clone(these)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.all[b].Lost, h.all[a].Lost), cmp.Compare(h.all[a].Job, h.all[b].Job))
	})
	return order
}

// remember keeps what is chosen if it is the best so far.
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

// search goes through all sets of a few candidates that could be better than the best.
func (h *hunt) search() {
	all := make([]int, len(h.all))
	for i := range all {
		all[i] = i
	}
	h.descend(h.dearest(all), 0, false)
	h.addAll(h.best)
	h.reduce() // where it was cut short, one may still be in vain
}

// descend decides on the rest beside those that are chosen, first without the dearest of them. refused: the gang does
// not fit with those that are chosen.
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

// enough reports whether there would be room for the gang if all the rest were stopped as well, whatever the law says.
func (h *hunt) enough(rest []int) bool {
	mark := h.view.Mark()
	for _, i := range rest {
		h.view.Give(h.all[i].Room)
	}
	_, ok := topology.PlaceLent(h.view, h.gang, h.lent, &h.refusal)
	h.view.Rollback(mark)
	return ok
}
