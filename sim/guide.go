package sim

import (
	"slices"
	"time"
)

// This file owns which faults the next seeds lean to, where a set of them is guided by
// what the ones before have reached. A run is still all of its seed: what it leans to
// is printed, and replays it.

// Meeting is a step that some state machine took soon after a fault had struck. Bugs
// live there: a fault alone, or a step alone, is met by the first seeds.
type Meeting struct {
	Fault string
	Taken Taken
}

const (
	// soonAfter is for how long a step counts as met by a fault.
	soonAfter = 2 * time.Second
	// guideKeeps is how many finds the next seeds are drawn from: the newest.
	guideKeeps = 32
)

// strike is when a fault struck last.
type strike struct {
	fault string
	at    instant
}

// meet notes which faults a step follows.
func (w *World) meet(step Taken) {
	w.strikes = slices.DeleteFunc(w.strikes, func(s strike) bool { return w.engine.now.since(s.at) > soonAfter })
	for _, s := range w.strikes {
		w.meetings[Meeting{s.fault, step}] = true
	}
}

// struckBy notes a fault for what follows it.
func (w *World) struckBy(fault string) {
	if w.meetings != nil {
		w.strikes = slices.DeleteFunc(w.strikes, func(s strike) bool { return s.fault == fault })
		w.strikes = append(w.strikes, strike{fault, w.engine.now})
	}
}

// Guide chooses. It learns from whole sets, so that what it chooses does not depend
// on how many seeds run at once.
type Guide struct {
	seen  map[Meeting]bool
	finds [][]string // the faults of seeds that met something new
	draws *generator
}

// NewGuide begins with nothing seen.
func NewGuide(seed uint64) *Guide {
	return &Guide{seen: map[Meeting]bool{}, draws: newSource(seed).fork("guide")}
}

// Lean returns the faults of the next seed. Every other time it returns none, because an unguided search reaches new
// states. Otherwise it returns most of the faults of a seed that found something new.
func (g *Guide) Lean() []string {
	if len(g.finds) == 0 || g.draws.chance(0.5) {
		return nil
	}
	var lean []string
	for _, fault := range g.finds[g.draws.below(len(g.finds))] {
		if !g.draws.chance(0.25) {
			lean = append(lean, fault)
		}
	}
	return lean
}

// Learn takes in what a seed has met, and answers how much of that is new.
func (g *Guide) Learn(r Result) (news int) {
	for m := range r.Meetings { //order: a set is added to a set
		if !g.seen[m] {
			g.seen[m] = true
			news++
		}
	}
	if news > 0 {
		g.finds = append(g.finds, r.Drawn)
		g.finds = g.finds[max(0, len(g.finds)-guideKeeps):]
	}
	return news
}

// Seen counts all that was met.
func (g *Guide) Seen() int { return len(g.seen) }
