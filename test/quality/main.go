// Command quality computes the figures of docs/reports/quality.md. It replays published traces and compares the default
// policy with other policies. The traces are not part of this project. Without them it replays synthetic workloads.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/replay"
)

// study describes a requested replay.
type study struct {
	traces string   // the folder of the traces; empty: there are none
	full   bool     // also the largest trace, ten runs of each, and the comparison with published simulators
	runs   int      // runs of each policy with jittered durations; 0: one unchanged run, or twenty if full
	page   string   // page whose tables are replaced; empty: none
	name   string   // only cases whose name contains this
	slices int      // replay so many random slices of the traces instead
	seed   uint64   // seed of the slices
	rows   rowRange // number of rows of each slice
	// without is a part of the policy to disable. eachPart disables one part after another. Empty means the
	// complete policy.
	without string
}

// ours is the policy of a cluster with default settings.
const ours = record.Synapse

func main() {
	s := study{rows: usualRows}
	flag.StringVar(&s.traces, "traces", "", "folder of the traces")
	flag.BoolVar(&s.full, "full",
		false, "also replay the largest trace, twenty times each, and compare with published simulators")
	flag.IntVar(&s.runs, "runs", 0, "number of runs of each policy, with durations jittered by up to 1%")
	flag.IntVar(&s.slices, "slices", 0, "replay this many random slices of the traces instead")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the slices")
	flag.Var(&s.rows, "rows", "minimum and maximum number of rows of a slice")
	flag.StringVar(&s.without, "without",
		"", "replay the default policy without this part instead, or without 'each' part in turn")
	flag.StringVar(&s.page, "write", "", "page whose tables are replaced")
	flag.StringVar(&s.name, "name", "", "only cases whose name contains this")
	flag.Parse()
	run := s.run
	if s.slices > 0 {
		run = s.runSlices
	} else if s.without != "" {
		run = s.runParts
	}
	if err := run(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

// scenario is one trace on one cluster.
type scenario struct {
	name, file string
	cut        record.Cut
	machines   int
	racks      int
	full       bool // only in a full study
	instrument bool // a case for the comparison with published simulators
	drawn      record.Synthetic
	goal       goal
}

// goal is the target of the default policy. 0 means no target. A missed target is bold.
type goal struct {
	sjf, easy, gangs, longest, rack float64
	slow                            float64 // of the P95 slowdown of gangs larger than one node, divided by that of easy
	p99, cover                      bool
}

func asTheyCame(first, rows int) record.Cut {
	return record.Cut{First: first, Rows: rows, Timescale: 1}
}

// published returns the cases of docs/reports/quality.md.
func published() []scenario {
	usual := goal{sjf: 1.3, gangs: 1.3, longest: 3.2, rack: 0.82, slow: 1.1, p99: true, cover: true}
	a3, a4, p1, p1b := usual, usual, usual, usual
	a3.cover, a4.cover, p1b.cover = false, false, false
	a4.sjf, p1b.sjf = 1.5, 1
	p1.sjf, p1.gangs = 1.8, 1.5
	p2 := goal{easy: 0.6, gangs: 1.3, longest: 3.2, rack: 0.72, slow: 1.1}
	return []scenario{
		{name: "A1", file: "aaic_2018q1", cut: asTheyCame(10_000, 20_000), machines: 40, racks: 5,
			instrument: true, goal: usual},
		{name: "A3", file: "aaic_2017q3", cut: record.Cut{Load: 0.85}, machines: 40, racks: 5,
			instrument: true, goal: a3},
		{name: "A4", file: "aaic_2018q3", cut: record.Cut{First: 10_000, Rows: 20_000, Load: 0.9}, machines: 40, racks: 5,
			goal: a4},
		{name: "P1", file: "philly_2017", cut: asTheyCame(60_000, 20_000), machines: 24, racks: 3,
			instrument: true, goal: p1},
		{name: "P1b", file: "philly_2017", cut: asTheyCame(0, 20_000), machines: 48, racks: 6, goal: p1b},
		{name: "P2", file: "philly_3vc", cut: asTheyCame(0, 0), machines: 36, racks: 5, goal: p2},
		{name: "M1", file: "mix_overlay", cut: asTheyCame(0, 0), machines: 208, racks: 26,
			full: true, instrument: true, goal: usual},
	}
}

// drawn returns synthetic cases, for users without traces.
func drawn() []scenario {
	busy := record.Cut{Load: 0.85}
	gangs, bursts := record.DefaultSynthetic(), record.DefaultSynthetic()
	gangs.Gangs, bursts.Bursts = 30, 40
	return []scenario{
		{name: "a week", cut: busy, machines: 12, racks: 2, drawn: record.DefaultSynthetic()},
		{name: "many gangs", cut: busy, machines: 24, racks: 3, drawn: gangs},
		{name: "many bursts", cut: busy, machines: 12, racks: 2, drawn: bursts},
	}
}

const described = "No TRACES: these are the results of drawn workloads. docs/reports/quality.md names the published\n" +
	"traces. TRACES=DIR needs them as NAME.csv.gz, with the columns of docs/operate/capacity.md, and limits in\n" +
	"NAME_extra.csv.gz.\n"

// run replays all requested cases, prints the tables, and writes them.
func (s study) run(out, progress io.Writer) error {
	cases := published()
	if s.traces == "" {
		fmt.Fprint(out, described+"\n")
		cases, s.page = drawn(), ""
	}
	var table, classes, instrument strings.Builder
	table.WriteString(head)
	classes.WriteString(classHead)
	instrument.WriteString(instrumentHead)
	for _, c := range cases {
		if c.full && !s.full || !strings.Contains(c.name, s.name) {
			continue
		}
		jobs, cluster, err := c.jobs(s.traces)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		runs := map[string][]*record.Result{}
		for _, policy := range []string{ours, "easy", "sjf", "fifo", "greedy"} {
			held := policy == "fifo" || policy == "greedy"
			if held && (!s.full || !c.instrument) {
				continue
			}
			fmt.Fprintf(progress, "%s: %s\n", c.name, policy)
			times := 1
			if !held {
				times = s.times()
			}
			if runs[policy], err = replays(jobs, cluster, policy, "", times); err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, policy, err)
			}
		}
		table.WriteString(row(c.name, c.goal, runs[ours], runs["easy"], runs["sjf"]))
		classes.WriteString(classRows(c.name, c.goal, runs[ours], runs["easy"], runs["sjf"]))
		if s.full && c.instrument {
			fmt.Fprintf(&instrument, "| %s", c.name)
			for _, policy := range []string{"fifo", "greedy", "easy", "sjf"} {
				fmt.Fprintf(&instrument, " | %s", whole(runs[policy][0].WaitAvg))
			}
			instrument.WriteString(" |\n")
		}
	}
	table.WriteString("\n" + classes.String())
	if s.name != "openb" {
		fmt.Fprint(out, table.String())
	}
	if s.full && s.traces != "" {
		fmt.Fprint(out, "\n", instrument.String())
	}
	if s.traces != "" && strings.Contains("openb", s.name) {
		if err := openb(s.traces, out); err != nil {
			return fmt.Errorf("openb: %w", err)
		}
	}
	if s.page == "" || s.name == "openb" {
		return nil
	}
	text, err := os.ReadFile(s.page)
	if err != nil {
		return err
	}
	return os.WriteFile(s.page, []byte(written(string(text), table.String())), 0o644)
}

// times returns the number of runs of each policy.
func (s study) times() int {
	if s.runs == 0 && s.full {
		return shakes
	}
	return max(s.runs, 1)
}

// jobs reads or draws the workload of a case.
func (c scenario) jobs(folder string) ([]record.Job, record.Cluster, error) {
	cluster := record.NewCluster(record.InRacks(c.machines, c.racks), gpusPerMachine)
	trace := c.drawn.Trace()
	if c.file != "" {
		var err error
		if trace, err = traceOf(folder, c.file); err != nil {
			return nil, cluster, err
		}
	}
	jobs, err := trace.Take(c.cut, cluster.Sum())
	return jobs, cluster, err
}

// traceOf reads a published trace.
func traceOf(folder, name string) (*record.Trace, error) {
	rows, err := os.Open(filepath.Join(folder, name+".csv.gz"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var source record.Input
	if limits, err := os.Open(filepath.Join(folder, name+"_extra.csv.gz")); err == nil {
		defer limits.Close()
		source.Limits = limits
	}
	return record.Read(rows, source)
}

const (
	gpusPerMachine = 8

	// shakes is the number of runs of a policy in a full study, each with jittered durations. A full cluster is
	// chaotic, so a single run says little. All policies get the same jitter.
	shakes = 20
	shake  = 0.01
)

// replays replays jobs several times. Of several runs one uses the simulator's checkers. Compared policies place gangs
// as published simulators do. Synapse's own policy may lack one of its parts.
func replays(jobs []record.Job, cluster record.Cluster, policy, without string, times int) ([]*record.Result, error) {
	var all []*record.Result
	for seed := range times {
		o := record.Order{Jobs: jobs, Cluster: cluster, Policy: policy, Without: without, Seed: uint64(seed + 1)}
		o.Ref, o.Oracle = policy != ours, policy != ours
		if times > 1 {
			o.Shake, o.Check = shake, seed == 0 && policy == ours
		}
		result, err := replay.Run(o, replay.Watch{})
		if err != nil {
			return nil, err
		}
		if result.Unfinished > 0 {
			return nil, fmt.Errorf("%d jobs never ended", result.Unfinished)
		}
		all = append(all, result)
	}
	return all, nil
}
