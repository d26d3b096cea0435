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

// This file defines the options of a run and the values that it draws from its seed.

// Options holds the settings of a run.
type Options struct {
	Seed uint64
	// World is "default", "small", "big" or "arrays".
	World string
	// Minutes of load and Machines replace the world's own values if they are not 0.
	Minutes  int
	Machines int
	// Constants are those of the protocol. nil means those of production.
	Constants *actors.Constants
	// Faults replaces the fault sites that the seed would draw. An empty list means none.
	Faults []string
	// Lean lists fault sites that the seed draws in three runs of four instead of one.
	Lean []string
	// Meet records the meetings of faults and steps.
	Meet bool
	// Plain leaves the job mix and the faults to a script. The next five options apply to such worlds. An unset
	// option means the world's own value.
	Plain      bool
	PerRack    int
	Schedulers int
	GPUs       []int // GPUs of the nodes, in turn
	Racks      []int // nodes in each rack, if the racks differ
	Earlier    []int // numbers of the nodes whose agents are of an earlier version
	LongNames  bool  // nodes have addresses of the maximum length
	// Published is the baseline of the previous version, if it is not the last published one.
	Published string
	// UIDs is the range for jobs of a plain world. The seed draws the range of other worlds.
	UIDs topology.UIDRange
	// Planner decides which gangs start. nil means the planner of the settings.
	Planner policy.Planner
	// Settings are the operator's settings as far as the leader uses them. nil means the defaults, but one seed of
	// eight and each run with a Planner use the order fifo.
	Settings *policy.Settings
	// Limits makes jobs state their duration: by the seed all jobs, half of them or none. It also makes some images
	// slow. Reserved nodes are then backfilled. Limits is also on if the seed draws the settings and the planner
	// looks ahead.
	Limits bool
	// Checks makes nodes check their own health. It is also on if nodes may become unhealthy.
	Checks bool
	// Shares makes the cluster use queues that the seed draws, with preemption.
	Shares bool
	// Hangs makes some gangs hang.
	Hangs bool
	// InPlace makes half of the jobs restart in place, and more of their tasks fail.
	InPlace bool
	// Prompt removes chance from durations, for replays of records. Each duration is Latency, a step takes no time,
	// clocks are exact, and a pass runs after all other occurrences of its instant.
	Prompt  bool
	Latency time.Duration
	// Processes limits how long a process needs to be prepared, to start, and to end after a signal. 0 means no limit.
	Processes time.Duration
	// Calls, if set, gets every write that the store accepted, in order. It does not get writes that a restore
	// removes or a file loses.
	Calls func(Call)
	// Gaps measures how long the checkers skipped jobs.
	Gaps bool
	// Unchecked disables the invariants, to measure their cost.
	Unchecked bool
	// Trace, if set, gets every step, and Lines every log line.
	Trace io.Writer
	Lines io.Writer
	Debug bool // Lines also gets debug lines
}

// SetConstant overrides one constant, as in "ResendFirst=260ms" or "LaunchFailures=5".
func SetConstant(c *actors.Constants, assignment string) error {
	name, value, _ := strings.Cut(assignment, "=")
	field := reflect.ValueOf(c).Elem().FieldByName(name)
	if !field.IsValid() {
		return fmt.Errorf("unknown constant %q", name)
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
	Alone      bool          // the only scheduler shares its store with nobody, so there is no lease
	File       bool          // the store is a SQLite file, next to the model in memory
	Load       time.Duration // how long jobs arrive and faults happen
	Gangs      int           // number of submitted gangs, in addition to small jobs
	Small      int
	Arrays     int // number of arrays, in addition to small jobs that are arrays
	LongestRun time.Duration
	ShortRun   time.Duration // longest run time of small jobs
	Pace       time.Duration // usual time between two faults of one site
	DriftPPM   int
	Faults     []string
	Drop       float64
	Double     float64
	Late       float64
	LateMost   time.Duration
	Busy       time.Duration // longest step of a slow actor
	BigGang    int           // nodes of the largest gang
	RosterPart int           // bytes of a gang's list in one message; 0: as in production
	Queue      int           // limit of messages that wait to be written to one peer
	Enough     int           // number of gangs that must have run
	UIDs       topology.UIDRange
	Kept       time.Duration // longest time for which a node keeps the files of a task
	Settings   policy.Settings
	Limits     bool // jobs state their duration
	Crowded    bool // jobs also request more than the cluster has
	Checks     bool // nodes check their own health
}

// String returns the options line of a failing seed.
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
		return d, fmt.Errorf("unknown world %q: use default, small, big or arrays", o.World)
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

// fifoSeeds sets how rare the order fifo is: one seed of so many uses it. It must not divide a number by which a seed
// decides how many jobs have limits.
const fifoSeeds = 8

// longerRuns multiplies the run time of the longest gangs in the default world if jobs state their duration. The
// cluster is then full for most of the hour.
const longerRuns = 3

// guards lists the anti-starvation shares of a pool in percent: the default, and more. Start guarantees cost credit
// from this share, and a job without estimates costs an hour of it. Without larger shares few seeds would have many
// guarantees.
var guards = []int64{5, 20, 50}

// drawSettings chooses the operator's settings: none, a larger anti-starvation share, or the order fifo.
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
	// Looking ahead only matters if jobs wait.
	if d.Crowded = d.Limits && !o.Plain && (o.World == "" || o.World == "default"); d.Crowded {
		d.LongestRun *= longerRuns
		if o.Settings == nil {
			d.Settings.GuardPercent = guards[o.Seed/uint64(len(guards))%uint64(len(guards))]
		}
	}
}

// drawUIDs chooses a UID range small enough that UIDs are reused and are sometimes all taken.
func (d *Draw) drawUIDs(s *generator) {
	jobs := d.Gangs + d.Small + 20*d.Arrays
	d.UIDs = topology.UIDRange{First: 2_000_000, Last: 2_999_999}
	if d.Enough < 10_000 {
		d.UIDs.Last = d.UIDs.First + uint32(s.span(max(jobs/16, 4), max(jobs/2, 9)))
	}
	d.Kept = s.between(10*time.Second, d.Load/2)
}

// script leaves out everything except the cluster.
func (d *Draw) script(o Options) {
	d.Gangs, d.Small, d.Enough, d.Faults, d.UIDs, d.Kept = 0, 0, 0, nil, o.UIDs, time.Minute
	if o.PerRack > 0 {
		d.PerRack = o.PerRack
	}
	if o.Schedulers > 0 {
		d.Schedulers, d.Alone = o.Schedulers, o.Schedulers == 1
	}
}

// drawFaults chooses each fault site with a probability of one in four, and at least one site.
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
	// Some runs lose no node and no message. They check the stricter rules, which a lost message may break for a
	// while.
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
		d.RosterPart = s.span(8, 32) // a few nodes per message, so that a small cluster needs several parts
	}
}
