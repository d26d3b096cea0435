// Command synapse-sim simulates clusters with the real actors in virtual time, for one or more seeds. `synapse-sim
// replay` replays a workload from `synapse-cli simulate`. This package defines the flags and the exit code; package
// sim implements the simulation.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim"
)

// arguments holds the values of the command line.
type arguments struct {
	seed     uint64
	seeds    int
	first    uint64
	world    string
	shares   bool
	hangs    bool
	inPlace  bool
	minutes  int
	machines int
	faults   string
	jobs     int
	trace    string
	verbose  bool
	debug    bool
	cost     bool
	bare     bool
	guided   bool
	gaps     bool
	order    string
	lean     string
	set      []string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "replay" {
		if err := carryOut(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "synapse-sim:", err)
			os.Exit(1)
		}
		return
	}
	var a arguments
	flag.Uint64Var(&a.seed, "seed", 0, "run this seed only")
	flag.IntVar(&a.seeds, "seeds", 0, "number of seeds to run")
	flag.Uint64Var(&a.first, "first", 1, "first seed of --seeds")
	flag.StringVar(&a.world, "world", "default",
		"simulated cluster: default (64 nodes for an hour), small (8 nodes for minutes), arrays (small, full of job "+
			"arrays) or big (10,000 nodes without faults)")
	flag.IntVar(&a.minutes, "minutes", 0, "minutes of load (default: set by --world)")
	flag.IntVar(&a.machines, "machines", 0, "number of nodes (default: set by --world)")
	flag.StringVar(&a.faults, "faults", "",
		"fault sites, separated by commas, or none (default: drawn from the seed); the value help lists the sites")
	flag.IntVar(&a.jobs, "jobs", 2, "number of seeds to run in parallel")
	flag.StringVar(&a.trace, "trace", "", "file to write every step to")
	flag.BoolVar(&a.verbose, "v", false, "write log lines to stderr")
	flag.BoolVar(&a.debug, "debug", false, "write debug log lines to stderr")
	flag.BoolVar(&a.cost, "cost", false, "write the cost of each seed to stderr")
	flag.BoolVar(&a.bare, "unchecked", false, "run without the checkers")
	flag.BoolVar(&a.guided, "guided", false, "bias seeds towards the faults of earlier seeds that reached new states")
	flag.BoolVar(&a.gaps, "gaps", false, "print how long each invariant was unchecked, in job-seconds over all seeds")
	flag.Func("order", "order of jobs, expected or fifo (default: drawn from the seed)", func(s string) error {
		if a.order = s; s != "expected" && s != "fifo" {
			return errors.New("is neither expected nor fifo")
		}
		return nil
	})
	flag.BoolVar(&a.shares, "shares", false, "use queues drawn from the seed, with preemption")
	flag.BoolVar(&a.hangs, "hangs", false, "make some gangs hang")
	flag.BoolVar(&a.inPlace, "in-place", false, "make half of the jobs restart in place")
	flag.StringVar(&a.lean, "lean", "", "fault sites that three of four seeds include, separated by commas")
	flag.Func("set", "protocol constant to override, such as ResendFirst=260ms; may be repeated", func(s string) error {
		a.set = append(a.set, s)
		c := actors.DefaultConstants()
		return sim.SetConstant(&c, s)
	})
	flag.Parse()
	if a.faults == "help" {
		fmt.Println(strings.Join(sim.Sites(), "\n"))
		return
	}
	// Simulations create much short-lived garbage. Using more memory is cheaper than collecting often, within
	// the limit of the largest world.
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1200 << 20)
	if err := a.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "synapse-sim:", err)
		os.Exit(1)
	}
}

// outcome is the result of one seed.
type outcome struct {
	lean   string
	result sim.Result
	err    error
	took   time.Duration
}

// run runs all seeds, several at once, and prints them in order.
func (a *arguments) run(out io.Writer) error {
	first, n := a.first, a.seeds
	if n <= 0 {
		first, n = a.seed, 1
	}
	guide, set := sim.NewGuide(first), n
	if a.guided {
		set = min(n, guidedSet)
	}
	failed := 0
	var results []sim.Result
	for from := 0; from < n; from += set {
		for done := range a.some(first+uint64(from), min(set, n-from), guide) {
			o := <-done
			if o.err != nil {
				return o.err
			}
			guide.Learn(o.result)
			o.result.Meetings = nil // frees memory
			results = append(results, o.result)
			if !a.print(out, o) {
				failed++
			}
		}
	}
	if a.guided {
		fmt.Fprintln(out, "met:", guide.Seen())
	}
	if a.gaps {
		writeGaps(out, sim.GapsOf(results))
	}
	err := a.happened(out, results)
	if failed > 0 {
		return fmt.Errorf("%d of %d seeds failed", failed, n)
	}
	if err != nil {
		return err
	}
	if n > 1 && a.faults == "" && a.world != "big" {
		return told(out, sim.Fired(results), n)
	}
	return nil
}

// guidedSet is the number of seeds that run before their results guide the next ones.
const guidedSet = 16

// some runs this many seeds, several at once, and returns them in order.
func (a *arguments) some(first uint64, n int, guide *sim.Guide) <-chan chan outcome {
	all, places := make(chan chan outcome, n), make(chan struct{}, max(1, a.jobs))
	leans := make([]string, n)
	for i := range leans {
		if leans[i] = a.lean; a.guided {
			leans[i] = strings.Join(guide.Lean(), ",")
		}
	}
	go func() {
		defer close(all)
		for i, lean := range leans {
			places <- struct{}{}
			done := make(chan outcome, 1)
			all <- done
			go func() {
				done <- a.one(first+uint64(i), lean)
				<-places
			}()
		}
	}()
	return all
}

// enoughSeeds is the number of seeds after which each kind of fault must have occurred. The chance that one kind is
// missing is 1 in 40,000.
const enoughSeeds = 100

// told prints how often each kind of fault occurred. A kind that never occurs in many seeds is no longer tested.
func told(out io.Writer, fired map[string]int64, seeds int) error {
	var all, never []string
	for _, name := range slices.Sorted(maps.Keys(fired)) {
		all = append(all, fmt.Sprintf("%s=%d", name, fired[name]))
		if fired[name] == 0 {
			never = append(never, name)
		}
	}
	fmt.Fprintln(out, "struck:", strings.Join(all, " "))
	if seeds >= enoughSeeds && len(never) > 0 {
		return fmt.Errorf("in %d seeds, these faults never occurred: %s", seeds, strings.Join(never, ", "))
	}
	return nil
}

// demand is a minimum number of events in enoughSeeds seeds.
type demand struct {
	name, counter string
	least         int64
}

// promises lists the demands for start guarantees and backfill: guarantees that were met, starts on reserved nodes,
// reservations that were given up because they were not ready in time, and guarantees that the next leader took
// over.
var promises = []demand{
	{"met", "promises.met", 500}, {"lent", "promises.lent", 1000}, {"start-by", "promises.start-by", 100},
	{"taken-over", "promises.taken-over", 100},
}

// shared lists the demands for quotas and preemption: starts on borrowed quota, stops by priority and reclaims,
// starts that followed them, and such starts after a change of the leader. tried-without counts the sets of victims
// for which brute force tried to leave out each victim.
var shared = []demand{
	{"borrowed", "shares.borrowed", 1000}, {"by-priority", "preemptions.priority", 300},
	{"reclaimed", "preemptions.reclaim", 300}, {"started", "preemptions.started", 300},
	{"taken-over", "preemptions.taken-over", 50}, {"tried-without", "preemptions.tried", 300},
}

// saves lists the demands for checkpoints on request: requests, requests that all required ranks acknowledged, and
// preemptions whose end was compared with the acknowledgements.
var saves = []demand{
	{"asked", "saves.asked", 1000}, {"saved", "saves.saved", 500}, {"preempted", "saves.judged", 0},
}

// restarts lists the demands for restarts in place.
var restarts = []demand{{"restarts", "heirs", 500}, {"swapped nodes", "swapped nodes", 0},
	{"attempts' spares", "spares", 0}, {"used spares", "spares.used", 0}}

// happened prints the events for start guarantees, or for quotas if there are some, for checkpoints on request and for
// restarts in place.
func (a *arguments) happened(out io.Writer, results []sim.Result) error {
	if a.world == "arrays" {
		return swept(out, results)
	}
	if len(results) < 2 {
		return nil
	}
	errs := []error{a.demands(out, "saves", saves, results)}
	if a.inPlace {
		errs = append(errs, a.demands(out, "in-place", restarts, results))
	}
	if a.shares {
		errs = append(errs, a.demands(out, "preemptions", shared, results))
	} else if a.order != "fifo" {
		errs = append(errs, a.demands(out, "promises", promises, results))
	}
	return errors.Join(errs...)
}

// demands prints the sums of events over all seeds. It returns an error if the default world has had too few in
// this many seeds.
func (a *arguments) demands(out io.Writer, what string, least []demand, results []sim.Result) error {
	var all, few []string
	for _, l := range least {
		var n int64
		for _, r := range results {
			n += r.Counters[l.counter]
		}
		all = append(all, fmt.Sprintf("%s=%d", l.name, n))
		if n < l.least {
			few = append(few, fmt.Sprintf("%s=%d, and not %d", l.name, n, l.least))
		}
	}
	fmt.Fprintf(out, "%s: %s\n", what, strings.Join(all, " "))
	if len(results) >= 2*enoughSeeds && len(few) > 0 && a.world == "default" && a.faults == "" {
		return fmt.Errorf("in %d seeds, too few %s: %s", len(results), what, strings.Join(few, "; "))
	}
	return nil
}

// swept prints the events for arrays. It returns an error if this many seeds have had too few elements.
func swept(out io.Writer, results []sim.Result) error {
	const enough = 20_000
	n := map[string]int64{}
	for _, r := range results {
		for _, name := range []string{"elements", "over", "overtaken"} {
			n[name] += r.Counters["array."+name]
		}
	}
	fmt.Fprintf(out, "arrays: over=%d elements=%d taken-over=%d\n", n["over"], n["elements"], n["overtaken"])
	if len(results) >= 2*enoughSeeds && n["elements"] < enough {
		return fmt.Errorf("in %d seeds, only %d elements became jobs, fewer than %d", len(results), n["elements"], enough)
	}
	return nil
}

func (a *arguments) one(seed uint64, lean string) outcome {
	c := actors.DefaultConstants()
	for _, s := range a.set {
		if err := sim.SetConstant(&c, s); err != nil {
			return outcome{err: err}
		}
	}
	o := sim.Options{
		Seed: seed, World: a.world, Minutes: a.minutes, Machines: a.machines, Debug: a.debug, Unchecked: a.bare,
		Meet: a.guided, Shares: a.shares, Hangs: a.hangs, InPlace: a.inPlace, Gaps: a.gaps,
	}
	if len(a.set) > 0 {
		o.Constants = &c // otherwise the seed draws some of them
	}
	switch settings := policy.OnlyFIFO(); a.order {
	case "expected":
		settings, o.Limits = policy.DefaultSettings(), true
		o.Settings = &settings
	case "fifo":
		o.Settings = &settings
	}
	if lean != "" {
		o.Lean = strings.Split(lean, ",")
	}
	switch a.faults {
	case "":
	case "none":
		o.Faults = []string{}
	default:
		o.Faults = strings.Split(a.faults, ",")
	}
	if a.verbose || a.debug {
		o.Lines = os.Stderr
	}
	if a.trace != "" {
		f, err := os.Create(a.trace)
		if err != nil {
			return outcome{err: err}
		}
		defer f.Close()
		buffered := bufio.NewWriterSize(f, 1<<20)
		defer buffered.Flush()
		o.Trace = buffered
	}
	began := time.Now()
	r, err := sim.Run(o)
	return outcome{lean, r, err, time.Since(began)}
}

// print prints the line of a seed and, after a failure, the data to run it again.
func (a *arguments) print(out io.Writer, o outcome) bool {
	r := o.result
	fmt.Fprintln(out, r.Line())
	if a.cost {
		fmt.Fprintf(os.Stderr, "seed=%d took=%.2fs steps/s=%.0f virtual=%s machines=%d jobs=%d\n", r.Seed, o.took.Seconds(),
			float64(r.Steps)/o.took.Seconds(), r.Virtual, r.Machines, r.Jobs)
	}
	if len(r.Violations) == 0 {
		return true
	}
	for _, v := range r.Violations {
		fmt.Fprintln(out, v)
	}
	fmt.Fprintln(out, "options:", r.Options)
	fmt.Fprintln(out, "replay:", a.replay(r.Seed, o.lean))
	for _, line := range r.Recent {
		fmt.Fprintln(os.Stderr, line)
	}
	return false
}

// replay returns the command that runs a seed again.
func (a *arguments) replay(seed uint64, lean string) string {
	words := ""
	add := func(format string, args ...any) { words += " " + fmt.Sprintf(format, args...) }
	if a.world != "default" {
		add("-world %s", a.world)
	}
	if a.minutes > 0 {
		add("-minutes %d", a.minutes)
	}
	if a.machines > 0 {
		add("-machines %d", a.machines)
	}
	if a.faults != "" {
		add("-faults %s", a.faults)
	}
	if a.hangs {
		add("-hangs")
	}
	if a.inPlace {
		add("-in-place")
	}
	if a.shares {
		add("-shares")
	}
	if a.order != "" {
		add("-order %s", a.order)
	}
	if lean != "" {
		add("-lean %s", lean)
	}
	for _, s := range a.set {
		add("-set %s", s)
	}
	if words == "" {
		return fmt.Sprintf("make sim SEED=%d", seed)
	}
	return fmt.Sprintf("go run ./cmd/synapse-sim -seed %d%s", seed, words)
}
