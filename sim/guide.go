package sim

import (
	"slices"
	"time"
)

// This file chooses the faults that the next seeds lean to, if a set of seeds is guided by the results of earlier
// seeds. A run still depends on its seed alone, apart from the faults it leans to. These are printed, so that a run can
// be replayed.

// Meeting is a step of a state machine soon after a fault. Bugs are likely there. The first seeds already cover single
// faults and single steps.
type Meeting struct {
	Fault string
	Taken Taken
}

const (
	// soonAfter is the time for which a fault counts for later steps.
	soonAfter = 2 * time.Second
	// guideKeeps is the number of newest finds from which the next seeds are drawn.
	guideKeeps = 32
)

// strike records when a fault last struck.
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

// struckBy notes a fault for the steps after it.
func (w *World) struckBy(fault string) {
	if w.meetings != nil {
		w.strikes = slices.DeleteFunc(w.strikes, func(s strike) bool { return s.fault == fault })
		w.strikes = append(w.strikes, strike{fault, w.engine.now})
	}
}

// Guide chooses faults to lean to. It learns from complete sets, so its choice does not depend on the number of seeds
// that run at once.
type Guide struct {
	seen  map[Meeting]bool
	finds [][]string // the faults of seeds that met something new
	draws *generator
}

// NewGuide returns a Guide that has seen nothing.
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

// Learn adds the meetings of a seed, and returns how many of them are new.
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

// Seen returns the number of all meetings so far.
func (g *Guide) Seen() int { return len(g.seen) }
