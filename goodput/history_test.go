package goodput

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// This file has a reference model: a list of the state of each GPU over time, under several leaders. The meter must
// report the same rows.

// piece is the class of a part of a node during a time span, or the capacity of a node.
type piece struct {
	from, to     int64
	class        Class
	capacity     bool
	milli        int64
	owner, queue string
	token        topology.Token
	cause        int
}

// gang is an attempt on one node.
type gang struct {
	share    Share
	over     bool  // the end was reported
	until    int64 // the time when the gang left the node
	produced bool
}

// box is a node.
type box struct {
	unit  Unit // as passed to the meter, without the gangs
	gangs []*gang
	heard bool // by the current leader
}

func (b *box) now() Unit {
	u := b.unit
	u.Shares, u.Idle = slices.Clone(u.Shares), u.Capacity
	for _, g := range b.gangs {
		u.Shares = append(u.Shares, g.share)
	}
	for _, s := range u.Shares {
		u.Idle -= s.Milli
	}
	return u
}

// history is the reference model together with the meter of the current leader.
type history struct {
	*Meter
	chance *rand.Rand
	now    int64
	since  int64
	until  int64 // end of the time that earlier leaders measured
	took   int64 // the day on which the current leader took over; it removes old days from the next day on
	boxes  map[topology.NodeID]*box
	left   []*gang // gangs whose ends were not reported
	pieces []piece
	named  map[key]bool // the names with rows; a past day gets no new names
	wants  Wants
	tokens uint64
	moved  bool // a change with an effect was reported
}

func newHistory(seed int64) *history {
	return &history{
		Meter: New(begin), chance: rand.New(rand.NewSource(seed)), now: begin, since: begin, until: begin,
		boxes: map[topology.NodeID]*box{}, named: map[key]bool{},
	}
}

func (h *history) idle(gpuType string) Class {
	if h.wants.Any || slices.Contains(h.wants.Types, gpuType) {
		return Wanted
	}
	return Unwanted
}

// did records the current state of a node for a time span. In a span that was not measured, a gang is productive from
// its own begin on.
func (h *history) did(b *box, from, to int64, counted bool) {
	if from >= to {
		return
	}
	u := b.now()
	h.pieces = append(h.pieces, piece{from: from, to: to, capacity: true, milli: u.Capacity})
	h.pieces = append(h.pieces, piece{from: from, to: to, class: h.idle(u.Type), milli: u.Idle})
	for _, s := range u.Shares {
		p := piece{from: from, to: to, class: s.Class, milli: s.Milli, owner: s.Owner, queue: s.Queue, token: s.Token}
		if !counted && s.Class == Productive && s.Began > from {
			early := p
			early.class, early.to, early.token = Starting, min(s.Began, to), topology.Token{}
			p.from = early.to
			h.pieces = append(h.pieces, early)
		}
		if p.from < p.to {
			h.pieces = append(h.pieces, p)
		}
	}
}

// makeUp records the state of a node for a time that was not measured. A name without a row on a past day belongs to
// the rest.
func (h *history) makeUp(b *box, from, to int64) {
	h.name(b)
	first := len(h.pieces)
	for day := from / dayMs; day <= to/dayMs; day++ {
		h.did(b, max(from, day*dayMs), min(to, (day+1)*dayMs), false)
	}
	for i := first; i < len(h.pieces); i++ {
		p := &h.pieces[i]
		if p.owner != "" && !h.named[key{Owners, p.from / dayMs, p.owner}] {
			p.owner = Rest
		}
		if p.queue != "" && !h.named[key{Queues, p.from / dayMs, p.queue}] {
			p.queue = Rest
		}
	}
}

// name records that every name on a node has a row today.
func (h *history) name(b *box) {
	for _, s := range b.now().Shares {
		h.named[key{Owners, h.now / dayMs, s.Owner}] = true
		h.named[key{Queues, h.now / dayMs, s.Queue}] = true
	}
}

// pass advances the time, one day at a time.
func (h *history) pass(ms int64) {
	if left := dayMs - h.now%dayMs; ms > left {
		h.pass(left)
		h.pass(ms - left)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(h.boxes)) {
		if b := h.boxes[id]; b.heard {
			h.name(b)
			h.did(b, h.now, h.now+ms, true)
		}
	}
	h.now += ms
}

// tell reports the state of a node to the meter.
func (h *history) tell(id topology.NodeID, changed bool) {
	b := h.boxes[id]
	b.heard = true
	h.name(b)
	if !h.Set(h.now, id, b.now()) {
		panic("a machine that adds up is not believed")
	}
	h.moved = h.moved || changed
}

// ends reports the end of a gang.
func (h *history) ends(g *gang, isLost bool) {
	cause := h.chance.Intn(Causes)
	said := int32(cause)
	if cause == 0 {
		said = []int32{-1, Causes, Causes + 7}[h.chance.Intn(3)] // an unknown cause
	}
	h.Ended(h.now, g.share.Token, said, isLost)
	h.moved = h.moved || g.produced
	if isLost {
		h.lose(g.share.Token, cause, h.now)
	}
}

func (h *history) lose(t topology.Token, cause int, before int64) {
	for i := range h.pieces {
		if p := &h.pieces[i]; p.token == t && p.class == Productive && p.to <= before {
			p.class, p.cause = Lost, cause
		}
	}
}

// rows sums the pieces.
func (h *history) rows() []Row {
	sums := map[key]*Amounts{}
	for _, p := range h.pieces {
		for day := p.from / dayMs; day*dayMs < p.to; day++ {
			amount := p.milli * (min(p.to, (day+1)*dayMs) - max(p.from, day*dayMs))
			for kind, name := range []string{"", p.owner, p.queue} {
				k := key{Kind(kind), day, name}
				if sums[k] == nil {
					sums[k] = &Amounts{}
				}
				if p.capacity {
					sums[k].Capacity += amount
					continue
				}
				sums[k].Of[p.class] += amount
				if p.class == Lost {
					sums[k].Lost[p.cause] += amount
				}
			}
		}
	}
	var all []Row
	for k, a := range sums {
		all = append(all, Row{Kind: k.kind, Day: k.day, Name: k.name, Amounts: *a})
	}
	slices.SortFunc(all, func(a, b Row) int {
		return cmp.Or(int(a.Kind)-int(b.Kind), int(a.Day-b.Day), cmp.Compare(a.Name, b.Name))
	})
	return slices.DeleteFunc(all, h.tooOld)
}

// tooOld reports whether a row has been removed, or is empty.
func (h *history) tooOld(r Row) bool {
	days := map[Kind]int64{Cluster: 400, Owners: 31, Queues: 31}[r.Kind]
	return r.Day <= h.now/dayMs-days || r.Amounts == Amounts{}
}

func (h *history) compare(t *testing.T, what string) {
	t.Helper()
	got, want := slices.DeleteFunc(h.Rows(h.now), func(r Row) bool {
		return r.Amounts == Amounts{} || h.now/dayMs == h.took && h.tooOld(r)
	}), h.rows()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s: row %d is\n%+v\nwant\n%+v", what, i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
	of, capacity := [Classes]int64{}, int64(0)
	for _, b := range h.boxes {
		if !b.heard {
			continue
		}
		u := b.now()
		for _, s := range u.Shares {
			of[s.Class] += s.Milli
		}
		of[h.idle(u.Type)] += u.Idle
		capacity += u.Capacity
	}
	if is, all := h.Now(); is != of || all != capacity || h.At() != h.now || h.Since() != h.since {
		t.Fatalf("%s: now it is %v of %d, want %v of %d; at %d since %d", what, is, all, of, capacity, h.At(), h.Since())
	}
	if moved := h.Moved(); moved != h.moved {
		t.Fatalf("%s: it says moved %v, want %v", what, moved, h.moved)
	}
	if h.moved = false; h.Moved() {
		t.Fatalf("%s: it moved again by itself", what)
	}
	h.Check()
}

// step makes one random change and returns its name.
func (h *history) step() string {
	id := topology.NodeID(fmt.Sprint("n", h.chance.Intn(4)))
	b := h.boxes[id]
	if b == nil {
		u := Unit{Joined: h.now - h.chance.Int63n(2)*hour, Type: []string{"a", "b"}[h.chance.Intn(2)], Capacity: 8000}
		if h.chance.Intn(4) == 0 {
			u.Shares = []Share{{Class: []Class{Kept, Broken, Closed}[h.chance.Intn(3)], Milli: 1000}}
		}
		h.boxes[id] = &box{unit: u}
		h.makeUp(h.boxes[id], max(u.Joined, h.until), h.now)
		h.tell(id, true)
		return "join"
	}
	switch n := h.chance.Intn(10); {
	case n == 0:
		h.Remove(h.now, id)
		h.moved = h.moved || b.heard
		h.leave(b, b.gangs...)
		delete(h.boxes, id)
		return "remove"
	case n == 1:
		w := Wants{Any: h.chance.Intn(3) == 0, Types: []string{"a", "b"}[:h.chance.Intn(3)]}
		h.moved = h.moved || w.Any != h.wants.Any || !slices.Equal(w.Types, h.wants.Types)
		h.Want(h.now, w)
		h.wants = w
		return "want"
	case n == 2 && len(h.left) > 0:
		for _, g := range h.left {
			if h.now-g.until < dayMs { // after a day, the meter no longer knows the attempt's work
				h.ends(g, h.chance.Intn(2) == 0)
			}
		}
		h.left = nil
		return "late end"
	case n == 3 && h.chance.Intn(2) == 0:
		b.unit.Capacity += 1000 // one more device
		h.tell(id, true)
		return "grow"
	case n == 3:
		h.tell(id, false)
		return "tell again"
	}
	return h.stepGang(id, b)
}

// stepGang makes a gang begin, advance or end.
func (h *history) stepGang(id topology.NodeID, b *box) string {
	if !b.heard {
		return "silence"
	}
	if free := b.now().Idle; free > 0 && (len(b.gangs) == 0 || h.chance.Intn(3) == 0) {
		h.tokens++
		b.gangs = append(b.gangs, &gang{share: Share{
			Class: Starting, Milli: h.chance.Int63n(free) + 1, Token: token(h.tokens),
			Owner: []string{"", "eva", "tom"}[h.chance.Intn(3)], Queue: []string{"p", "q"}[h.chance.Intn(2)],
		}})
		h.tell(id, true)
		return "begin"
	}
	if len(b.gangs) == 0 {
		return "nothing"
	}
	g := b.gangs[h.chance.Intn(len(b.gangs))]
	switch {
	case g.share.Class == Starting:
		g.share.Class, g.share.Began, g.produced = Productive, h.now, true
		h.tell(id, true)
		return "barrier"
	case g.share.Class == Productive && !g.over && h.chance.Intn(2) == 0:
		g.over = true
		h.ends(g, h.chance.Intn(2) == 0)
		return "end"
	case g.share.Class == Productive && h.chance.Intn(2) == 0:
		g.share.Class = Stopping
		if !g.over {
			g.over = true
			h.left = append(h.left, &gang{share: g.share, until: h.now, produced: true})
		}
		h.tell(id, true)
		return "stop"
	}
	h.leave(b, g)
	h.tell(id, true)
	return "gone"
}

// leave removes gangs from a node.
func (h *history) leave(b *box, gangs ...*gang) {
	for _, g := range slices.Clone(gangs) {
		if !g.over && g.share.Class == Productive {
			g.until = h.now
			h.left = append(h.left, g)
		}
		b.gangs = slices.DeleteFunc(b.gangs, func(o *gang) bool { return o == g })
	}
}
