package timeline

import (
	"slices"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
)

// This file owns where the GPU time of a time went: the difference of two readings of goodput's ledger. A sample each
// minute would miss what was shorter, and never come to what `synapse-cli efficiency` says. A reading has all that was
// counted up to it, so a sum that is missing, or a leader that took over in between, loses nothing.

// Spent says where GPU time went, in thousandths of a GPU times milliseconds.
type Spent struct {
	Of       map[string]int64 `json:"of"`             // by goodput's class
	Lost     map[string]int64 `json:"lost,omitempty"` // what is lost, by the cause
	Capacity int64            `json:"capacity"`
	Ms       int64            `json:"ms,omitempty"` // of how long a time
}

// Reading has all that the ledger had at a moment. Those of one ledger, which has counted since the same time, can be
// compared.
type Reading struct {
	Spent
	Since int64 `json:"since"`
	Until int64 `json:"until"`
}

// readingOf is that of a census; nil: some machines have not been heard by this leader yet. What these had since
// the record of the leader before is counted once they have been, and would be taken for that of another minute.
func readingOf(c *mirror.Census) *Reading {
	if at := slices.Index(mirror.MachinePhases, messages.NodeUnknown); at < len(c.Machines) && c.Machines[at] > 0 {
		return nil
	}
	r := &Reading{Since: c.SpentSince, Until: c.SpentUntil}
	r.Of, r.Lost, r.Capacity = map[string]int64{}, map[string]int64{}, c.Spent.Capacity
	for class, n := range c.Spent.Of {
		r.Of[goodput.Words[class]] = n
	}
	for cause, n := range c.Spent.Lost {
		if n != 0 {
			r.Lost[messages.Word(messages.Cause(cause).String(), "CAUSE_")] = n
		}
	}
	return r
}

// after returns what was counted after an earlier reading; nil: they cannot be compared. The ledger has less than
// before where it has forgotten its oldest day, and where its time went back with the clock of another leader.
func (r *Reading) after(base *Reading) *Spent {
	if r == nil || base == nil || r.Since != base.Since || r.Until <= base.Until || r.Capacity < base.Capacity {
		return nil
	}
	s := &Spent{Of: map[string]int64{}, Lost: map[string]int64{}, Capacity: r.Capacity - base.Capacity,
		Ms: r.Until - base.Until}
	subtract(s.Of, r.Of, base.Of)
	subtract(s.Lost, r.Lost, base.Lost)
	return s
}

// subtract leaves out what has not changed. What was productive becomes less where it is lost.
func subtract(to, from, base map[string]int64) {
	for name, n := range from { //order: each alike
		if n != base[name] {
			to[name] = n - base[name]
		}
	}
}

// plus adds what was counted after it; either may not be known.
func (s *Spent) plus(o *Spent) *Spent {
	if s == nil || o == nil {
		if s == nil {
			return o
		}
		return s
	}
	s.Of, s.Lost = added(s.Of, o.Of), added(s.Lost, o.Lost)
	s.Capacity, s.Ms = s.Capacity+o.Capacity, s.Ms+o.Ms
	return s
}
