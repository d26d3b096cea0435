package policy

// This file owns the parts of the planner that looks ahead, for whoever measures what each of them brings. No cluster
// plans without one: what can be set of them there is in Settings.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
)

// Parts are their names.
func Parts() []string {
	return []string{"guard", "headroom", "locality", "promises", "lending", "learning", "probes", "sizes"}
}

// lacking are the parts that no setting turns off.
type lacking struct{ lending, learning, probes, sizes bool }

// Without is a planner's settings without one of its parts; false where it has none of that name.
func (s Settings) Without(part string) (Settings, bool) {
	switch part {
	case "guard":
		s.GuardPercent = 0
	case "headroom":
		s.HeadroomPercent = 0
	case "locality":
		s.Locality = 0
	case "promises": // moving ones; the guard's turn stays
		s.PromisesOnes, s.PromisesGangs = 0, 0
	case "lending":
		s.lacks.lending = true
	case "learning":
		s.lacks.learning = true
	case "probes":
		s.lacks.probes = true
	case "sizes":
		s.lacks.sizes = true
	}
	return s, slices.Contains(Parts(), part)
}

// expected is how long the jobs of a burst are expected to run.
func (j *Judgement) expected(b *burst) int64 {
	if !j.settings.lacks.learning {
		return b.line.Estimate(j.now)
	}
	if b.traits.Limit > 0 {
		return min(estimate.Unlearned, b.traits.Limit)
	}
	return estimate.Unlearned
}
