// Package hang decides whether a gang has stopped making progress, and which rank stopped first. The package is pure.
// The leader and the simulator use it.
//
// A hang is decided only if the state of every rank is known. Activity that was not measured is unknown, and never
// counts as none. The package names a rank only if that rank differs from all others. Otherwise it says that no rank
// stands out.
package hang

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns the decision.

const (
	// busyFactor limits for how many floors the use of a CPU or a disk explains a missing step. It covers compilations
	// and checkpoints. Ranks that wait for a GPU can also use a CPU without end.
	busyFactor = 10
	// pauseFactor limits for how many floors an announced pause explains a missing step.
	pauseFactor = 60
	// aloneFactor is the number of floors after which a single quiet rank among busy ones stands out.
	aloneFactor = 3
	// apart is the part of the floor by which one rank must have stopped before all others to stand out by its time.
	apart = 4
)

// Rank is the state of one rank.
type Rank struct {
	Rank    int32
	Node    string
	Step    int64
	Reports bool          // it has reported steps
	Late    bool          // its step has not changed for longer than usual
	Silent  time.Duration // since its step last changed
	Busy    bool          // it uses a CPU or a disk
	Quiet   time.Duration // for how long it has used neither; 0 if it is busy
	Pause   string        // announced by the task
	Wait    messages.Wait
	Call    string
	Unread  int64
}

// Case holds all facts about one attempt.
type Case struct {
	Ranks  []Rank // whose state was reported in detail
	Active int    // other ranks, whose state is known: they are busy, or on time
	OnTime int    // active ranks that report steps
	Tasks  int    // all ranks
	Floor  time.Duration
	Paused bool // the scheduler has asked the tasks to save a checkpoint
}

// Finding is a hang.
type Finding struct {
	Rank   int // index in Case.Ranks of the rank that stopped first, or -1
	Silent time.Duration
	Why    string
}

// Judge decides whether the gang hangs.
func Judge(c Case) (Finding, bool) {
	if c.Paused || c.OnTime > 0 || c.Floor <= 0 || c.Active+len(c.Ranks) < c.Tasks || len(c.Ranks) == 0 {
		return Finding{}, false
	}
	silent, late := c.silent()
	if !late {
		return Finding{}, false
	}
	stopped := only(c.Ranks, func(r Rank) bool { return r.Wait == messages.Wait_WAIT_STOPPED && r.Quiet >= c.Floor/2 })
	busy := c.Active > 0 || slices.ContainsFunc(c.Ranks, func(r Rank) bool { return r.Busy })
	paused := slices.ContainsFunc(c.Ranks, func(r Rank) bool { return r.Pause != "" })
	switch {
	case paused && silent < pauseFactor*c.Floor:
		return Finding{}, false
	case stopped >= 0:
		return Finding{Rank: stopped, Silent: silent, Why: "the rank is stopped by a signal or a debugger"}, true
	case busy && silent >= aloneFactor*c.Floor && c.alone() >= 0:
		why := "the rank does nothing, and the other ranks use their CPUs"
		return Finding{Rank: c.alone(), Silent: silent, Why: why}, true
	case busy && silent < busyFactor*c.Floor:
		return Finding{}, false
	}
	for _, e := range evidence {
		if i := e.of(c); i >= 0 {
			return Finding{Rank: i, Silent: silent, Why: e.why}, true
		}
	}
	return Finding{Rank: -1, Silent: silent}, true
}

// silent returns the time since the last step of all ranks, and whether every rank that reports steps is late.
func (c Case) silent() (time.Duration, bool) {
	least, late := time.Duration(-1), false
	for _, r := range c.Ranks {
		switch {
		case r.Reports && !r.Late:
			return 0, false
		case r.Reports:
			late = true
			if least < 0 || r.Silent < least {
				least = r.Silent
			}
		}
	}
	return least, late && least >= c.Floor
}

// alone returns the only quiet rank of at least three, or -1.
func (c Case) alone() int {
	i := only(c.Ranks, func(r Rank) bool { return !r.Busy && r.Quiet >= c.Floor })
	if c.Tasks < 3 {
		return -1
	}
	return i
}

// clue is one kind of evidence that distinguishes a rank.
type clue struct {
	why string
	of  func(c Case) int // index of the rank, or -1
}

// evidence lists the clues. The first one that names a rank decides.
var evidence = []clue{
	{"the job has one rank", func(c Case) int {
		if c.Tasks == 1 {
			return 0
		}
		return -1
	}},
	{"the others have finished a step that this rank has not finished", Case.behind},
	{"all other ranks wait for a peer", Case.odd},
	{"only this rank has unread data", func(c Case) int {
		return only(c.Ranks, func(r Rank) bool { return r.Unread > 0 })
	}},
	{"the rank stopped before the others", Case.earliest},
}

// behind returns the only rank whose step is lower than the steps of all others, if all ranks report steps.
func (c Case) behind() int {
	if slices.ContainsFunc(c.Ranks, func(r Rank) bool { return !r.Reports }) || len(c.Ranks) < c.Tasks {
		return -1
	}
	least := slices.MinFunc(c.Ranks, func(a, b Rank) int { return cmp.Compare(a.Step, b.Step) })
	return only(c.Ranks, func(r Rank) bool { return r.Step == least.Step })
}

// odd returns the only rank that does not wait for a socket, if all others do. A rank that reads nothing of what it
// received is such a rank too, even if it waits for another socket.
func (c Case) odd() int {
	if len(c.Ranks) < c.Tasks || c.Tasks < 2 {
		return -1
	}
	if slices.ContainsFunc(c.Ranks, func(r Rank) bool { return r.Wait == messages.Wait_WAIT_UNSPECIFIED }) {
		return -1
	}
	return only(c.Ranks, func(r Rank) bool { return r.Wait != messages.Wait_WAIT_PEER })
}

// earliest returns the rank that became quiet well before all others.
func (c Case) earliest() int {
	if len(c.Ranks) < c.Tasks || c.Tasks < 2 {
		return -1
	}
	first := 0
	for i, r := range c.Ranks {
		if r.Quiet > c.Ranks[first].Quiet {
			first = i
		}
	}
	return only(c.Ranks, func(r Rank) bool { return r.Quiet > c.Ranks[first].Quiet-c.Floor/apart })
}

// only returns the index of the only rank for which is returns true. It returns -1 if there are none or several.
func only(ranks []Rank, is func(Rank) bool) int {
	found := -1
	for i, r := range ranks {
		if !is(r) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}
