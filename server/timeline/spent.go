package timeline

import (
	"slices"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
)

// This file computes how GPU time was used in a time range, as the difference of two readings of goodput's ledger.
// Samples once per minute would miss short changes, and would differ from `synapse-cli efficiency`. A reading
// contains all earlier time, so a missing sum or a change of the leader loses nothing.

// Spent holds how GPU time was used, in thousandths of a GPU times milliseconds.
type Spent struct {
	Of       map[string]int64 `json:"of"`             // by goodput's class
	Lost     map[string]int64 `json:"lost,omitempty"` // lost time, by cause
	Capacity int64            `json:"capacity"`
	Ms       int64            `json:"ms,omitempty"` // length of the time range
}

// Reading holds the totals of the ledger at a time. Readings of the same ledger (the same Since) can be compared.
type Reading struct {
	Spent
	Since int64 `json:"since"`
	Until int64 `json:"until"`
}

// readingOf returns the reading of a census, or nil if some nodes have not reported to this leader yet. Their time
// since the previous leader's record is added when they report, and would count for the wrong minute.
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

// after returns the difference from an earlier reading, or nil if the two cannot be compared. The totals decrease
// when the ledger drops its oldest day, or when a new leader's clock is behind.
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

// subtract stores the changed values. Productive time decreases when it is lost.
func subtract(to, from, base map[string]int64) {
	for name, n := range from { //order: each is independent
		if n != base[name] {
			to[name] = n - base[name]
		}
	}
}

// plus adds the following time range. Either may be nil.
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
