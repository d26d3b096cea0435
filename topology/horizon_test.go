package topology

// This file compares the horizon with brute force. For every time at which anything ends, a tree and an oracle have all
// capacity that has ended by then. The brute force uses neither binary search nor a cache.

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
)

// future is a world with its ends and reservations.
type future struct {
	world
	ends    map[NodeID][]End
	backOff map[NodeID]int64
	keeps   []keep
	from    int64
}

// instantLimit makes the number of times small, so that many ends coincide.
const instantLimit = 12

func randomFuture(r *rand.Rand) *future {
	w := &future{world: randomWorld(r), ends: map[NodeID][]End{}, backOff: map[NodeID]int64{},
		from: r.Int63n(instantLimit / 2)}
	for range 8 {
		if w.everFits() {
			break
		}
		w.gang = randomGang(r, w.levels)
	}
	for i := range w.spots {
		w.drawTime(r, i)
	}
	for i := range max(0, r.Intn(6)-2) {
		w.keeps = append(w.keeps, w.drawKeep(r, i))
	}
	return w
}

// drawTime draws the ends on one node. Usually they are parts of the used capacity. Sometimes more ends than the node
// has, because reports can be inconsistent.
func (w *future) drawTime(r *rand.Rand, at int) {
	s := &w.spots[at]
	delete(w.ends, s.m.ID)
	delete(w.backOff, s.m.ID)
	if r.Intn(4) > 0 {
		s.free.MilliCPU, s.free.MemoryBytes = s.free.MilliCPU/4, s.free.MemoryBytes/4
		s.free.WholeGPUs /= 4
	}
	used := s.m.Total.Minus(Resources{s.free.MilliCPU, s.free.MemoryBytes, s.free.MilliGPU()})
	for _, part := range s.free.Parts {
		used.MilliGPU -= WholeGPU - part
		w.ends[s.m.ID] = append(w.ends[s.m.ID], drawEnd(r, Resources{MilliGPU: WholeGPU - part}))
	}
	for !used.IsZero() && !used.IsNegative() && r.Intn(9) > 0 {
		piece := used
		if r.Intn(2) == 0 {
			piece = Resources{used.MilliCPU / 2, used.MemoryBytes / 2, used.MilliGPU / 2 / WholeGPU * WholeGPU}
		}
		used = used.Minus(piece)
		e := drawEnd(r, piece)
		if all := w.ends[s.m.ID]; len(all) > 0 && r.Intn(3) == 0 { // another part of the same gang
			last := &all[len(all)-1]
			last.Of, e.Of, e.Hard, e.Likely = "gang", "gang", last.Hard, last.Likely
		}
		w.ends[s.m.ID] = append(w.ends[s.m.ID], e)
	}
	if r.Intn(9) == 0 {
		w.ends[s.m.ID] = append(w.ends[s.m.ID], drawEnd(r, randomAmount(r, s.m.Total)))
	}
	if s.why != "" && r.Intn(4) > 0 {
		w.backOff[s.m.ID] = 1 + r.Int63n(instantLimit)
	}
}

func drawEnd(r *rand.Rand, amount Resources) End {
	e := End{Amount: amount, Hard: Never, Likely: 1 + r.Int63n(instantLimit)}
	if r.Intn(9) > 0 {
		e.Hard = e.Likely + r.Int63n(4)
	}
	if r.Intn(19) == 0 {
		e.Likely = Never
	}
	return e
}

func randomAmount(r *rand.Rand, total Resources) Resources {
	a := Resources{MilliCPU: r.Int63n(total.MilliCPU + 1), MemoryBytes: r.Int63n(total.MemoryBytes + 1)}
	a.MilliGPU = r.Int63n(total.MilliGPU/WholeGPU+1) * WholeGPU
	if r.Intn(4) == 0 && total.MilliGPU > 0 {
		a.MilliGPU = pickOne(r, int64(100), 300, 500, 700)
	}
	return a
}

// drawKeep draws a reservation, which may begin at any time or from a certain time on.
func (w *future) drawKeep(r *rand.Rand, i int) keep {
	return keep{KeepID(fmt.Sprint("k", i)), w.drawSlots(r), r.Int63n(2) * r.Int63n(instantLimit)}
}

// drawSlots draws the nodes of a reservation, including nodes that have left.
func (w *future) drawSlots(r *rand.Rand) (slots []Slot) {
	for _, at := range r.Perm(len(w.spots))[:min(len(w.spots), r.Intn(3))] {
		for range 1 + r.Intn(2) {
			amount := randomAmount(r, w.spots[at].m.Total)
			amount.MilliCPU, amount.MemoryBytes = amount.MilliCPU/2, amount.MemoryBytes/2
			slots = append(slots, Slot{Node: w.spots[at].m.ID, Amount: amount})
		}
	}
	if r.Intn(3) == 0 {
		slots = append(slots, Slot{Node: "gone", Amount: Resources{MilliCPU: 1}})
	}
	return slots
}

// horizon creates the tree and the horizon under test.
func (w *future) horizon() (*Tree, *Horizon) {
	f := w.tree(inOrder(len(w.spots)))
	h := NewHorizon(f)
	for _, s := range w.spots {
		h.Set(s.m.ID, w.ends[s.m.ID])
		h.BackedOff(s.m.ID, w.backOff[s.m.ID])
	}
	for _, k := range w.keeps {
		f.KeepFrom(k.id, Placement{Slots: k.slots}, k.from)
	}
	return f, h
}

// asOf returns the world at a later time, with the unreserved remainder as free capacity.
func (w *future) asOf(instant int64, by Basis) world {
	then := world{oracle: oracle{levels: w.levels}, gang: w.gang}
	for _, s := range w.spots {
		for _, e := range endingsOf(nil, w.ends[s.m.ID], by) {
			if e.at <= instant {
				s.free = s.free.More(e.amount)
			}
		}
		s.free = w.beside(&s, Resources{})
		if until := w.backOff[s.m.ID]; until > 0 && until <= instant {
			s.why = ""
		}
		then.spots = append(then.spots, s)
	}
	return then
}

// beside subtracts the reservations on a node from its free capacity in the simplest way. Devices are a list of sizes.
// Each reserved device, largest first, takes the smallest one that holds it. relief is the part of the reservations
// that leaves before they begin.
func (w *future) beside(s *spot, relief Resources) Capacity {
	total := s.m.Total
	c := Capacity{MilliCPU: min(s.free.MilliCPU, total.MilliCPU), MemoryBytes: min(s.free.MemoryBytes, total.MemoryBytes)}
	whole, parts := min(int64(s.free.WholeGPUs), total.MilliGPU/WholeGPU), s.free.Parts
	for _, k := range w.keeps {
		if slices.ContainsFunc(k.slots, func(slot Slot) bool { return slot.Node == s.m.ID }) {
			// Not more devices than exist.
			parts = parts[:min(len(parts), int(total.MilliGPU/WholeGPU-whole))]
		}
	}
	devices := slices.Clone(parts)
	for range whole {
		devices = append(devices, WholeGPU)
	}
	var wanted, shares []int64
	for _, k := range w.keeps {
		for _, slot := range k.slots {
			if slot.Node != s.m.ID {
				continue
			}
			slot.Amount, relief = Resources{
				max(0, slot.Amount.MilliCPU-relief.MilliCPU), max(0, slot.Amount.MemoryBytes-relief.MemoryBytes),
				slot.Amount.MilliGPU%WholeGPU + max(0, slot.Amount.MilliGPU/WholeGPU*WholeGPU-relief.MilliGPU),
			}, relief.besides(Resources{
				slot.Amount.MilliCPU, slot.Amount.MemoryBytes, slot.Amount.MilliGPU / WholeGPU * WholeGPU})
			c.MilliCPU -= slot.Amount.MilliCPU
			c.MemoryBytes -= slot.Amount.MemoryBytes
			for range slot.Amount.MilliGPU / WholeGPU {
				wanted = append(wanted, WholeGPU)
			}
			if share := slot.Amount.MilliGPU % WholeGPU; share > 0 {
				shares = append(shares, share)
			}
		}
	}
	slices.SortFunc(shares, largestFirst)
	first := len(wanted)
next:
	for _, share := range shares {
		for i := first; i < len(wanted); i++ {
			if wanted[i]+share <= WholeGPU {
				wanted[i] += share
				continue next
			}
		}
		wanted = append(wanted, share)
	}
	slices.SortFunc(wanted, largestFirst)
	var rest []int64
	for _, want := range wanted {
		slices.Sort(devices)
		at := slices.IndexFunc(devices, func(d int64) bool { return d >= want })
		if at < 0 {
			devices, rest = nil, nil
			break
		}
		rest = append(rest, devices[at]-want)
		devices = slices.Delete(devices, at, at+1)
	}
	for _, d := range slices.Concat(devices, rest) {
		if d == WholeGPU {
			c.WholeGPUs++
		} else if d > 0 {
			c.Parts = append(c.Parts, d)
		}
	}
	slices.SortFunc(c.Parts, largestFirst)
	c.MilliCPU, c.MemoryBytes = max(c.MilliCPU, 0), max(c.MemoryBytes, 0)
	return c
}

// earliest tries every time.
func (w *future) earliest(by Basis) (at int64, p Placement, ok bool) {
	for at = w.from; at <= w.from+2*instantLimit; at++ {
		if then := w.asOf(at, by); then.place(w.gang) >= 0 {
			p, _ = Place(then.tree(inOrder(len(then.spots))), w.gang)
			return at, p, true
		}
	}
	return 0, Placement{}, false
}

// differs compares the horizon with brute force.
func (w *future) differs(h *Horizon, by Basis) (ok bool, problem string) {
	at, p, ok := h.Earliest(&w.gang, w.from, by)
	at2, p2, ok2 := w.earliest(by)
	if at != at2 || ok != ok2 || !reflect.DeepEqual(p, p2) {
		return ok, fmt.Sprintf("by %d: at %d %v %v, brute force says at %d %v %v", by, at, ok, p, at2, ok2, p2)
	}
	if ok && at < w.whenOf(p, by) {
		return ok, fmt.Sprintf("by %d: at %d, but its amounts are free at %d", by, at, w.whenOf(p, by))
	}
	if when := h.When(p, by); ok && when != w.whenOf(p, by) {
		return ok, fmt.Sprintf("by %d: the amounts of %v are free at %d, brute force says %d", by, p, when, w.whenOf(p, by))
	}
	return ok, ""
}

// whenOf tries every time for one placement.
func (w *future) whenOf(p Placement, by Basis) int64 {
	for at := range int64(3 * instantLimit) {
		then := w.asOf(at, by)
		if !slices.ContainsFunc(p.Slots, func(s Slot) bool { return !then.gives(p, s.Node) }) {
			return at
		}
	}
	return Never
}

// gives reports whether a node has all amounts that a placement takes from it.
func (w *world) gives(p Placement, id NodeID) bool {
	s := w.spot(id)
	ok := s.why == ""
	for _, slot := range p.Slots {
		if slot.Node == id {
			ok = ok && takeOne(&s.free, slot.Amount)
		}
	}
	return ok
}

func (w *future) String() string {
	return fmt.Sprintf("%v\nends %v\nbenches %v\nkept %v\nfrom %d", w.world, w.ends, w.backOff, w.keeps, w.from)
}

// TestHorizonAgainstOracle compares time, feasibility and placement.
func TestHorizonAgainstOracle(t *testing.T) {
	later, never, n := 0, 0, *clusters/4
	if *clusters != ordinary {
		n = *clusters
	}
	for i := range n {
		r := rand.New(rand.NewSource(*seed + int64(i)))
		w := randomFuture(r)
		_, h := w.horizon()
		for by := range bases {
			ok, problem := w.differs(h, by)
			if problem != "" {
				t.Fatalf("-cluster-seed=%d -clusters=1: %s\n%v", *seed+int64(i), problem, w)
			}
			if at, _, _ := h.Earliest(&w.gang, w.from, by); at > w.from {
				later++
			}
			never += tick(!ok)
		}
	}
	t.Logf("%d clusters, %d gangs fit later, %d never, 0 differences", n, later, never)
	if n >= 1000 && (later < n/4 || never < n/4) {
		t.Error("the random clusters are too easy or too hard")
	}
}

// TestHorizonOfLargeDomains asks repeatedly while nodes change, in racks with many shelves and with many different
// times. Just before the answered time, the tree must refuse the gang. At that time, it must place the gang as
// answered.
func TestHorizonOfLargeDomains(t *testing.T) {
	asked, later := 0, 0
	for n := range *clusters / 2000 {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := &future{ends: map[NodeID][]End{}, backOff: map[NodeID]int64{}}
		w.levels = pickOne(r, []string{"rack"}, []string{"zone", "rack"}, nil)
		sizes := pickOne(r, []int64{8}, []int64{4}, []int64{0, 2, 4, 8})
		for i := range 60 + r.Intn(200) {
			w.spots = append(w.spots, randomSpot(r, w.levels, sizes, 3, i))
			w.spots[i].m.ID = NodeID(fmt.Sprintf("n%03d", (i*37)%271))
			w.drawLater(r, i)
		}
		f, h := w.horizon()
		gangs := []Gang{largeGang(r, w.levels), largeGang(r, w.levels), largeGang(r, w.levels)}
		for range 20 {
			w.gang, w.from = pickOne(r, gangs...), r.Int63n(1000)
			waits, problem := w.neighbours(h, Basis(r.Intn(int(bases))))
			asked, later = asked+1, later+tick(waits)
			if problem != "" {
				t.Fatalf("-cluster-seed=%d: %s\ngang %+v from %d", *seed+int64(n), problem, w.gang, w.from)
			}
			for range r.Intn(40) {
				at := r.Intn(len(w.spots))
				w.drawLater(r, at)
				id := w.spots[at].m.ID
				f.SetFree(id, w.spots[at].free)
				h.Set(id, w.ends[id])
				h.BackedOff(id, w.backOff[id])
			}
		}
	}
	if t.Logf("%d of %d gangs fit later", later, asked); asked >= 100 && later < asked/5 {
		t.Error("the random clusters are too easy or too hard")
	}
}

// drawLater draws the ends on one node, at one of many times.
func (w *future) drawLater(r *rand.Rand, at int) {
	w.drawTime(r, at)
	ends := w.ends[w.spots[at].m.ID]
	for i := range ends {
		for _, end := range []*int64{&ends[i].Hard, &ends[i].Likely} {
			if *end < Never {
				*end = *end*1000 + r.Int63n(1000)
			}
		}
	}
}

func largeGang(r *rand.Rand, levels []string) Gang {
	g := randomGang(r, levels)
	g.Only = nil
	switch {
	case g.Split != SplitNone:
		g.Total = g.Total.times(1 + r.Int63n(20))
	case g.Each.MilliGPU%WholeGPU == 0:
		g.Replicas *= 1 + r.Int31n(30)
	}
	return g
}

// neighbours compares an answer with the tree at its time, and at the time before.
func (w *future) neighbours(h *Horizon, by Basis) (waits bool, problem string) {
	at, p, ok := h.Earliest(&w.gang, w.from, by)
	before := int64(100 * 1000)
	if ok {
		then := w.asOf(at, by)
		if p2, refusal := Place(then.tree(inOrder(len(then.spots))), w.gang); !reflect.DeepEqual(p, p2) {
			return true, fmt.Sprintf("at %d %v, the tree says %v %v", at, p, p2, refusal)
		}
		before = at - 1
	}
	then := w.asOf(before, by)
	if p2, refusal := Place(then.tree(inOrder(len(then.spots))), w.gang); refusal == nil && before >= w.from {
		return ok, fmt.Sprintf("%v at %d, but at %d already it fits: %v", ok, at, before, p2)
	}
	return ok && at > w.from, ""
}
