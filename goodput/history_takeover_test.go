package goodput

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// takeover starts a new leader from the record of the previous leader. In between, nodes join and leave, and gangs
// begin and end, without being measured.
func (h *history) takeover() {
	for _, g := range h.left { // the previous leader recorded what each end lost
		h.ends(g, false)
	}
	rows, since, until := h.Rows(h.now), h.Since(), h.now
	var pasts []Past
	var removed []*box
	var gone []int64
	h.left, h.moved = nil, false
	lost := map[topology.Token]int{}
	for range h.chance.Intn(4) {
		h.now += h.chance.Int63n(30 * hour)
		id := topology.NodeID(fmt.Sprint("n", h.chance.Intn(4)))
		b := h.boxes[id]
		switch {
		case b == nil:
			h.boxes[id] = &box{unit: Unit{Joined: h.now, Type: "b", Capacity: 4000}}
		case len(b.gangs) == 0:
			removed, gone = append(removed, b), append(gone, h.now)
			delete(h.boxes, id)
		default:
			g := b.gangs[0]
			if g.share.Class == Starting {
				g.share.Class, g.share.Began, g.produced = Productive, h.now+h.chance.Int63n(9)*minute, true
				continue
			}
			b.gangs = b.gangs[1:]
			if g.share.Class == Productive && !g.over && h.chance.Intn(2) == 0 {
				lost[g.share.Token] = 1 + len(lost)
				pasts = append(pasts, Past{
					Owner: g.share.Owner, Queue: g.share.Queue, Began: g.share.Began, Ended: h.now, Milli: g.share.Milli,
					Cause: int32(lost[g.share.Token]),
				})
			}
		}
	}
	h.now += h.chance.Int63n(3 * hour)
	h.Meter, h.wants = New(h.now), Wants{}
	h.until, h.took = until, h.now/dayMs
	h.Recall(since, until, rows)
	for t, cause := range lost {
		h.lose(t, cause, until)
	}
	for i := range pasts {
		h.LostSince(&pasts[i])
	}
	for i, b := range removed {
		h.Removed(b.unit.Capacity, b.unit.Joined, gone[i])
		b.unit.Shares = []Share{{Class: Broken, Milli: b.unit.Capacity}}
		h.did(b, max(until, b.unit.Joined), gone[i], false)
	}
	h.hear(until)
}

// hear reports each node to the new leader, one after the other.
func (h *history) hear(until int64) {
	for _, b := range h.boxes {
		b.heard = false
		for _, g := range b.gangs {
			if g.over { // the end is on disk
				g.share.Class = Stopping
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.boxes)) {
		b := h.boxes[id]
		h.makeUp(b, max(until, b.unit.Joined), h.now)
		h.tell(id, true)
		if h.chance.Intn(3) == 0 {
			h.pass(h.chance.Int63n(9 * hour))
		}
	}
}

// TestHistory compares the meter with a list of the state of each GPU.
func TestHistory(t *testing.T) {
	for seed := range int64(80) {
		h := newHistory(seed)
		long := []int64{minute, hour, 30 * hour, 20 * 24 * hour}[seed%4]
		for i := range 60 {
			what := h.step()
			if h.chance.Intn(15) == 0 {
				what = "takeover"
				h.takeover()
			}
			if h.chance.Intn(3) > 0 {
				h.pass(h.chance.Int63n(long))
			}
			if h.chance.Intn(3) == 0 {
				h.compare(t, fmt.Sprintf("seed %d, step %d, %s", seed, i, what))
			}
		}
		h.compare(t, fmt.Sprintf("seed %d, at the end", seed))
	}
}
