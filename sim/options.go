package sim

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a run is given, and what it draws from its seed.

// Options holds the settings of a run.
type Options struct {
	Seed uint64
	// World is "default", "small", "big" or "arrays".
	World string
	// Minutes of load and Machines replace the world's own where they are not 0.
	Minutes  int
	Machines int
	// Constants of the protocol; nil means those of production.
	Constants *actors.Constants
	// Faults replaces the fault sites that the seed would draw; an empty list means none.
	Faults []string
	// Lean are fault sites that the seed draws in three runs of four, and not in one.
	Lean []string
	// Meet asks for the meetings of faults and steps.
	Meet bool
	// Plain leaves the job mix and the faults to whoever scripts the world; the next
	// five are for them, and take the world's own where they are not set.
	Plain      bool
	PerRack    int
	Schedulers int
	GPUs       []int // of the machines, in turn
	Racks      []int // machines in each rack, where they differ
	Earlier    []int // numbers of the machines whose agents are of an earlier version
	LongNames  bool  // machines have addresses as long as they may be
	// Published is the baseline of the version before this one, where it is not the last that was published.
	Published string
	// UIDs are given to jobs of a plain world; the seed draws those of the others.
	UIDs topology.UIDRange
	// Planner decides which gangs start; nil: the one that the settings ask for.
	Planner policy.Planner
	// Settings are the owner's of the cluster, as far as the leader itself goes by them. nil: those where nothing is set;
	// one seed of eight, and whoever brings a Planner, goes by the order fifo.
	Settings *policy.Settings
	// Limits has jobs say how long they take, by the seed all, half or none of them, and lets some images be slow: what a
	// planner that looks ahead keeps is lent then. It is so wherever the seed draws the settings and the planner looks
	// ahead.
	Limits bool
	// Checks has machines check their own health. It is so wherever they may fall ill.
	Checks bool
	// Shares has the cluster go by queues that the seed draws, whose jobs may be stopped for others.
	Shares bool
	// Prompt takes chance out of time, for whoever replays what was recorded: what would take a while takes Latency, a
	// step takes none, clocks are exact, and a pass comes after all else of its instant.
	Prompt  bool
	Latency time.Duration
	// Calls, if any, is told every write that the store has taken, in their order. What a restore takes back and what a
	// file loses are not told.
	Calls func(Call)
	// Gaps asks for how long the checkers looked away from jobs.
	Gaps bool
	// Unchecked leaves the invariants out, to see what they cost.
	Unchecked bool
	// Trace, if any, is told every step; Lines every log line.
	Trace io.Writer
	Lines io.Writer
	Debug bool // of the log lines, those for debugging too
}

// SetConstant overrides one constant, as in "ResendFirst=260ms" or "LaunchFailures=5".
func SetConstant(c *actors.Constants, assignment string) error {
	name, value, _ := strings.Cut(assignment, "=")
	field := reflect.ValueOf(c).Elem().FieldByName(name)
	if !field.IsValid() {
		return fmt.Errorf("there is no constant %q", name)
	}
	d, err := time.ParseDuration(value)
	if field.Type() != reflect.TypeFor[time.Duration]() {
		var n int
		n, err = strconv.Atoi(value)
		d = time.Duration(n)
	}
	if err != nil {
		return fmt.Errorf("constant %s: %w", name, err)
	}
	field.SetInt(int64(d))
	return nil
}

// Draw holds everything that a run's seed decides: the cluster, the faults and their severity. It is printed when a run
// fails.
type Draw struct {
	Machines   int
	PerRack    int
	Levels     []string
	Schedulers int
	Alone      bool          // the one scheduler shares its store with nobody: there is no lease
	File       bool          // it is a file: SQLite itself, beside the model in memory
	Load       time.Duration // how long jobs keep arriving, and faults happening
	Gangs      int           // how many gangs are submitted, beside small jobs
	Small      int
	Arrays     int // beside those that small jobs are
	LongestRun time.Duration
	ShortRun   time.Duration // the longest of small jobs
	Pace       time.Duration // the usual time between two faults of one site
	DriftPPM   int
	Faults     []string
	Drop       float64
	Double     float64
	Late       float64
	LateMost   time.Duration
	Busy       time.Duration // the most that a step of a slow actor takes
	BigGang    int           // machines of the largest gang
	RosterPart int           // bytes of a gang's list in one message; 0: as in production
	Queue      int           // messages that may wait to be written to one peer
	Enough     int           // gangs that must have run
	UIDs       topology.UIDRange
	Kept       time.Duration // the most that what is left of a task lies on its machine
	Settings   policy.Settings
	Limits     bool // jobs say how long they take
	Crowded    bool // and they want more than there is
	Checks     bool // machines check their own health
}

// String is the options line of a failing seed.
func (d Draw) String() string {
	return fmt.Sprintf("machines=%d per-rack=%d levels=%s schedulers=%d alone=%t file=%t load=%s gangs=%d small=%d "+
		"longest=%s pace=%s drift=%dppm drop=%.2f double=%.2f late=%.2f late-most=%s busy=%s roster-part=%d queue=%d "+
		"uids=%d kept=%s order=%s guard=%d limits=%t arrays=%d faults=%s",
		d.Machines, d.PerRack, strings.Join(d.Levels, "/"), d.Schedulers, d.Alone, d.File, d.Load, d.Gangs,
		d.Small, d.LongestRun,
		d.Pace, d.DriftPPM, d.Drop, d.Double, d.Late, d.LateMost, d.Busy, d.RosterPart, d.Queue, d.UIDs.Len(), d.Kept,
		d.Settings.Order, d.Settings.GuardPercent, d.Limits, d.Arrays,
		strings.Join(d.Faults, ","))
}

// draw decides a run's world.
func draw(o Options, s *generator) (Draw, error) {
	var d Draw
	switch o.World {
	case "", "default":
		d = Draw{Machines: 64, PerRack: 8, Load: time.Hour, Gangs: 260, Small: 140, LongestRun: 4 * time.Minute,
			Pace: 2 * time.Minute, BigGang: 16, Enough: 200}
	case "small":
		d = Draw{Machines: 8, PerRack: 4, Load: 4 * time.Minute, Gangs: 44, Small: 24, LongestRun: 30 * time.Second,
			Pace: 12 * time.Second, BigGang: 5, Enough: 8}
	case "big":
		d = Draw{Machines: 10_000, PerRack: 16, Load: time.Hour, Gangs: 20_000, Small: 10_000, LongestRun: 20 * time.Minute,
			Pace: 10 * time.Minute, BigGang: 64, Enough: 10_000}
	case "arrays":
		d = Draw{Machines: 8, PerRack: 4, Load: 3 * time.Minute, Gangs: 8, Small: 4, Arrays: 10,
			LongestRun: 8 * time.Second, Pace: 12 * time.Second, BigGang: 3, Enough: 2}
	default:
		return d, fmt.Errorf("there is no world %q: default, small, big or arrays", o.World)
	}
	if o.Shares {
		d.shareRoom(o)
	}
	if o.Machines > 0 {
		d.Gangs, d.Small = d.Gangs*o.Machines/d.Machines, d.Small*o.Machines/d.Machines
		d.Enough = d.Enough * o.Machines / d.Machines
		d.Machines = o.Machines
	}
	if o.Minutes > 0 {
		load := time.Duration(o.Minutes) * time.Minute
		scale := func(n int) int { return int(int64(n) * int64(load) / int64(d.Load)) }
		d.Gangs, d.Small, d.Enough, d.Load = scale(d.Gangs), scale(d.Small), scale(d.Enough), load
	}
	d.Schedulers, d.Alone, d.Levels, d.Queue = 1, true, []string{"block", "rack"}, messages.MaxQueuedMessages
	if o.World != "big" && !o.Plain {
		d.drawFaults(s, o)
	}
	d.drawUIDs(s.fork("uids"))
	d.drawSettings(o)
	if o.Faults != nil {
		d.Faults = o.Faults
	}
	d.Checks = o.Checks || slices.Contains(d.Faults, "unwell")
	if o.Plain {
		d.script(o)
	}
	return d, nil
}

// fifoSeeds is of how many seeds one goes by the order fifo. It divides no number by which a seed decides how many jobs
// have limits.
const fifoSeeds = 8

// longerRuns is how many times as long as elsewhere the longest gangs of the default world run where jobs say how long
// they take: so long that the room is full for most of the hour.
const longerRuns = 3

// guards are the parts of a pool, in percent, that go to the oldest job: what it is where nothing is set, and more.
// Credit is what firm promises are made from, and jobs of which nothing has been learned cost an hour of it each:
// without more of it few seeds would have many.
var guards = []int64{5, 20, 50}

// drawSettings chooses what the owner of the cluster has set: nothing, a larger guard, or the order fifo.
func (d *Draw) drawSettings(o Options) {
	switch {
	case o.Settings != nil:
		d.Settings, d.Limits = *o.Settings, o.Limits
	case o.Planner != nil || !o.Plain && o.Seed%fifoSeeds == 0:
		d.Settings, d.Limits = policy.OnlyFIFO(), o.Limits
	default:
		d.Settings, d.Limits = policy.DefaultSettings(), o.Limits || !o.Plain
	}
	d.ShortRun = d.LongestRun
	// Who looks ahead wants somebody who waits.
	if d.Crowded = d.Limits && !o.Plain && (o.World == "" || o.World == "default"); d.Crowded {
		d.LongestRun *= longerRuns
		if o.Settings == nil {
			d.Settings.GuardPercent = guards[o.Seed/uint64(len(guards))%uint64(len(guards))]
		}
	}
}

// drawUIDs chooses a range that goes round: some of its numbers are given again, and now and then all are held.
func (d *Draw) drawUIDs(s *generator) {
	jobs := d.Gangs + d.Small + 20*d.Arrays
	d.UIDs = topology.UIDRange{First: 2_000_000, Last: 2_999_999}
	if d.Enough < 10_000 {
		d.UIDs.Last = d.UIDs.First + uint32(s.span(max(jobs/16, 4), max(jobs/2, 9)))
	}
	d.Kept = s.between(10*time.Second, d.Load/2)
}

// script leaves everything but the room out.
func (d *Draw) script(o Options) {
	d.Gangs, d.Small, d.Enough, d.Faults, d.UIDs, d.Kept = 0, 0, 0, nil, o.UIDs, time.Minute
	if o.PerRack > 0 {
		d.PerRack = o.PerRack
	}
	if o.Schedulers > 0 {
		d.Schedulers, d.Alone = o.Schedulers, o.Schedulers == 1
	}
}

// drawFaults chooses the fault sites: each with a chance of one in four, and at
// least one.
func (d *Draw) drawFaults(s *generator, o Options) {
	if s.chance(0.5) {
		d.Levels = []string{"rack"}
	}
	d.Schedulers = s.span(1, 3)
	d.Busy = s.fork("busy").between(100*time.Millisecond, 3*time.Second)
	d.Alone = d.Schedulers == 1 && s.fork("alone").chance(0.5)
	if few := s.fork("queue"); few.chance(0.5) {
		d.Queue = few.span(1, 24)
	}
	d.File = d.Alone && s.fork("file").chance(0.5)
	d.DriftPPM = s.below(3) * 5_000
	d.Drop, d.Double, d.Late = float64(s.below(31))/100, float64(s.below(51))/100, float64(s.below(6))/100
	d.LateMost = s.between(time.Second, 4*time.Minute)
	d.Pace = s.between(d.Pace/2, d.Pace*2)
	// In some runs nobody is lost and no word is: there the finer rules are checked,
	// which a lost word may break for a while.
	calm := s.chance(0.125)
	for len(d.Faults) == 0 {
		for i := range sites {
			site := &sites[i]
			odds := site.odds(d)
			if slices.Contains(o.Lean, site.name) {
				odds = max(odds, 0.75)
			}
			dice := s
			if site.apart {
				dice = s.fork(site.name)
			}
			if dice.chance(odds) && (d.Schedulers > 1 || !site.needsStandby) && site.fits(d) && (site.calmIn(d) || !calm) {
				d.Faults = append(d.Faults, site.name)
			}
		}
	}
	if s.chance(0.5) {
		d.RosterPart = s.span(8, 32) // a few machines to a message: the parts of a large gang's list, in a small room
	}
}
