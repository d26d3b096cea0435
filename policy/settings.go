package policy

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/policy/share"
)

// This file has the settings of the policy, and their defaults. Shares are integer percentages, because decisions use
// no floating point. The file also lists the parts of the planner, so that measurements can turn each of them off.
// Every cluster uses all parts.

// second is one second in nanoseconds, the unit of all times.
const second = 1_000_000_000

// Settings holds the settings of the policy.
type Settings struct {
	Order share.Order
	// PromisesOnes and PromisesGangs are the maximum numbers of moving promises in a pool, for jobs that fit on one
	// node and for gangs.
	PromisesOnes, PromisesGangs int
	// GuardPercent is the part of a pool that goes to the jobs that have waited longest, whatever the order is
	// (antiStarvationShare).
	GuardPercent int64
	// HeadroomPercent is the part of a pool that long jobs leave to short jobs (shortJobShare).
	HeadroomPercent int64
	// Locality is the time for which a gang waits for a place at the finest possible level, after it could start
	// elsewhere (topologyWait). A gang that has waited longer waits for half of that time, up to LocalityMost.
	Locality, LocalityMost time.Duration
	// KeepMost is the longest reservation without a bound (maxReservation).
	KeepMost time.Duration
	// DefaultLimit is the time limit of jobs that set none; 0: no limit.
	DefaultLimit time.Duration

	lacks lacking
}

// DefaultSettings returns settings that suit an unknown cluster.
func DefaultSettings() Settings {
	return Settings{
		Order: share.Expected, PromisesOnes: 1, PromisesGangs: 1, GuardPercent: 5, HeadroomPercent: 10,
		Locality: time.Minute, LocalityMost: 10 * time.Minute, KeepMost: 24 * time.Hour,
	}
}

// OnlyFIFO returns settings without reservations and without looking ahead. A Judgement with these settings starts the
// same jobs as the simple planner, and can use queues.
func OnlyFIFO() Settings { return Settings{Order: share.FIFO} }

// Parts returns the names of the parts.
func Parts() []string {
	return []string{"guard", "headroom", "locality", "promises", "lending", "learning", "probes", "sizes"}
}

// lacking has the parts that are turned off and have no setting.
type lacking struct{ lending, learning, probes, sizes bool }

// Without returns settings without one part of the planner. It returns false for an unknown name.
func (s Settings) Without(part string) (Settings, bool) {
	switch part {
	case "guard":
		s.GuardPercent = 0
	case "headroom":
		s.HeadroomPercent = 0
	case "locality":
		s.Locality = 0
	case "promises": // moving ones only; the guard still makes firm ones
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
