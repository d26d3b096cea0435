package policy

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/policy/share"
)

// This file owns what the owner of a cluster may set of the policy, and what holds where nothing is set. Shares are
// whole percents: what decides has no floating point. It owns the parts of the planner, too, for whoever measures what
// each of them brings: no cluster plans without one.

// second is one in the nanoseconds that times and instants are in.
const second = 1_000_000_000

// Settings holds the settings of the policy.
type Settings struct {
	Order share.Order
	// PromisesOnes and PromisesGangs are how many moving promises a pool has at once, to jobs that one machine can
	// hold and to others.
	PromisesOnes, PromisesGangs int
	// GuardPercent is which part of a pool goes to the oldest job that waits, whatever the order says.
	GuardPercent int64
	// HeadroomPercent is which part of a pool long work leaves to short work.
	HeadroomPercent int64
	// Locality is for how long a gang waits for a place as close together as can be, once it could start elsewhere. A gang
	// that had waited for longer waits half as long again, up to LocalityMost.
	Locality, LocalityMost time.Duration
	// KeepMost is for how long room is kept for a promise without a bound.
	KeepMost time.Duration
	// DefaultLimit is the time limit of jobs that name none; 0: they have none.
	DefaultLimit time.Duration

	lacks lacking
}

// DefaultSettings are good for a cluster of which nothing is known.
func DefaultSettings() Settings {
	return Settings{
		Order: share.Expected, PromisesOnes: 1, PromisesGangs: 1, GuardPercent: 5, HeadroomPercent: 10,
		Locality: time.Minute, LocalityMost: 10 * time.Minute, KeepMost: 24 * time.Hour,
	}
}

// OnlyFIFO are settings that keep no room for anybody and look ahead for nothing: with them a Judgement starts what the
// default planner starts, and can obey queues.
func OnlyFIFO() Settings { return Settings{Order: share.FIFO} }

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
