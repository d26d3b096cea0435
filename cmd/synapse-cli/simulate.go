package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/sim/record"
)

// This file owns `simulate`: what a recorded workload would have met on a cluster.

// replayFlags are what `simulate` was asked.
type replayFlags struct {
	record, limits string
	nodes, gpus    int
	racks          int
	cut            record.Cut
	policies       []string
	placement      string
	latency, until string
	order          record.Order
	runs           int
}

// placements are where the gangs of a policy that is compared with may go.
var placements = []string{"own", "ref"}

func (a *app) simulateCommand() *cobra.Command {
	r := &replayFlags{}
	c := a.objectFlag(&cobra.Command{
		Use:   "simulate RECORD",
		Short: "replay a recorded workload on a simulated cluster",
		Long: "Replays a record of jobs: the scheduler of this version decides, on virtual time, on a cluster of as many\n" +
			"machines as are asked for, on which nothing fails. It says how long jobs would have waited and how well the\n" +
			"GPUs would have been used. No cluster is asked, and nothing is written.\n\n" +
			"RECORD is a CSV file, compressed or not, with the columns submit_s, duration_s and gpus, and where it has them\n" +
			"job_id, user, queue and requested_walltime_s. gpus is the whole gang's: one of no more than a machine has goes\n" +
			"on one machine, a larger one on whole machines and at most one more. Limits of time may also stand in a file\n" +
			"beside it, of the columns job_id and requested_walltime_s: NAME_extra.csv of NAME.csv, or --limits.\n\n" +
			"Policies: synapse is that of a cluster. The others are what it is compared with, and no cluster has them: fifo\n" +
			"(the first in line blocks), greedy (whoever fits), easy (backfilling around a promise to the first), sjf and\n" +
			"sjfskip (the shortest first), ssf (the smallest and shortest first). They go by limits, or, with --oracle, by\n" +
			"how long each job will really run.",
		Example: "  synapse-cli simulate jobs.csv --nodes 40\n" +
			"  synapse-cli simulate jobs.csv --nodes 40 --policy synapse,easy,sjf --oracle\n" +
			"  synapse-cli simulate jobs.csv --nodes 50 --timescale 0 --load 0.9 --runs 5 --shake 0.01 -o json",
		Args: named("record", "RECORD", 1),
		RunE: func(c *cobra.Command, args []string) error {
			r.record = args[0]
			if c.Flags().Changed("load") && !c.Flags().Changed("timescale") {
				r.cut.Timescale = 0
			}
			return a.simulate(r)
		},
	})
	f := c.Flags()
	f.IntVar(&r.nodes, "nodes", 0, "machines of the cluster")
	f.IntVar(&r.gpus, "gpus-per-node", 8, "GPUs of each")
	f.IntVar(&r.racks, "racks", 0, "racks that they stand in; left out: 8 machines to a rack")
	f.StringVar(&r.limits, "limits", "", "a `FILE` of the jobs' limits of time")
	f.IntVar(&r.cut.First, "first-row", 0, "leave out so many rows")
	f.IntVar(&r.cut.Rows, "rows", 0, "replay so many rows; 0: all")
	f.Float64Var(&r.cut.Timescale, "timescale", 1, "stretch the time between arrivals; 0: until they offer --load")
	f.Float64Var(&r.cut.Load, "load", 0.9, "the share of the GPUs that arrivals want, where --timescale is 0 or left out")
	f.StringSliceVar(&r.policies, "policy", []string{record.Synapse}, "`POLICY` to replay, or several by comma: "+strings.Join(record.Policies(), ", "))
	f.StringVar(&r.placement, "placement", "own", "where gangs of the other policies go: own, as the cluster places them, or ref, as published simulators do")
	f.BoolVar(&r.order.Oracle, "oracle", false, "the other policies know how long each job runs")
	f.Uint64Var(&r.order.Seed, "seed", 1, "of chance")
	f.Float64Var(&r.order.Shake, "shake", 0, "change each duration by chance, by up to this share of it")
	f.IntVar(&r.runs, "runs", 1, "replay so many times, each with another seed")
	f.StringVar(&r.until, "until", "", "stop this long after the first job came; left out: when all are over")
	f.StringVar(&r.latency, "latency", "", "what a message, a write to a disk and a preparation take; left out: no time")
	f.BoolVar(&r.order.Check, "check", false, "have the simulator's checkers look at every step")
	for flag, words := range map[string][]string{"policy": record.Policies(), "placement": placements} {
		a.completeWords(c, flag, words)
	}
	return c
}

// simulate replays a record under each policy.
func (a *app) simulate(r *replayFlags) error {
	if err := r.check(); err != nil {
		return err
	}
	trace, err := r.read()
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return usage("%s: %s", path.Path, path.Err)
	}
	if err != nil {
		return usage("%s: %s", r.record, err)
	}
	for i, bad := range trace.Bad {
		if i == badShown {
			a.say("and %d more", len(trace.Bad)-i)
			break
		}
		a.say("left out: %s", bad)
	}
	r.order.Racks, r.order.GPUs = racksOf(r.nodes, r.racks), r.gpus
	jobs, err := trace.Take(r.cut, r.nodes*r.gpus)
	if err != nil {
		return usage("%s: %s", r.record, err)
	}
	program, err := a.program("synapse-sim")
	if err != nil {
		return err
	}
	r.order.Jobs = jobs
	var results []*record.Result
	interrupted := &atomic.Bool{}
	for _, policy := range r.policies {
		for run := range r.runs {
			o := r.order
			o.Policy, o.Seed = policy, o.Seed+uint64(run)
			result, err := a.replay(program[0], o, interrupted)
			if err != nil {
				return err
			}
			results = append(results, result)
			if interrupted.Load() {
				return cmp.Or(show.Replays(a.stdout, a.style, results), quietly(exitInterrupted))
			}
		}
	}
	return show.Replays(a.stdout, a.style, results)
}

// badShown is how many rows that are left out are named.
const badShown = 10

// replay has the simulator carry an order out, and says meanwhile how far it is. Ctrl-C ends it with what has been done.
func (a *app) replay(program string, o record.Order, interrupted *atomic.Bool) (*record.Result, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	run := exec.Command(program, "replay")
	run.Stdin, run.Stderr = bytes.NewReader(order), a.stderr
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is handed on once, and not twice
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		return nil, &failure{code: exitFailure, text: err.Error()}
	}
	defer onInterrupt(func() {
		interrupted.Store(true)
		_ = run.Process.Signal(os.Interrupt)
	})()
	result, heard := a.hear(out, o)
	if err := run.Wait(); err != nil && heard == nil {
		heard = fmt.Errorf("%s: %w", program, err)
	}
	if heard != nil {
		return nil, &failure{code: exitFailure, text: heard.Error()}
	}
	return result, nil
}

// hear reads what the simulator says, to its result.
func (a *app) hear(out io.Reader, o record.Order) (*record.Result, error) {
	began, told := time.Now(), time.Now()
	for words := json.NewDecoder(out); ; {
		var w record.Word
		if err := words.Decode(&w); err != nil {
			return nil, fmt.Errorf("the simulator ended without a result: %w", err)
		}
		switch {
		case w.Err != "":
			return nil, errors.New(w.Err)
		case w.Result != nil:
			return w.Result, nil
		}
		if now := time.Now(); now.Sub(told) >= progressEvery {
			told = now
			left := time.Duration(float64(now.Sub(began)) / float64(w.Ended) * float64(len(o.Jobs)-w.Ended))
			a.say("%s: %d of %d jobs are over, about %s left", o.Policy, w.Ended, len(o.Jobs), left.Round(time.Second))
		}
	}
}

// progressEvery is how often a run says how far it is.
const progressEvery = 5 * time.Second

// check refuses what cannot be replayed.
func (r *replayFlags) check() error {
	if r.nodes < 1 {
		return usageHint("--nodes 40", "--nodes: say how many machines the cluster has")
	}
	for flag, wrong := range map[string]bool{
		"gpus-per-node": r.gpus < 1 || r.gpus > 64, "racks": r.racks < 0 || r.racks > r.nodes, "first-row": r.cut.First < 0, "rows": r.cut.Rows < 0,
		"timescale": r.cut.Timescale < 0, "load": r.cut.Load <= 0, "shake": r.order.Shake < 0 || r.order.Shake >= 1, "runs": r.runs < 1,
	} {
		if wrong {
			return usage("--%s is out of range", flag)
		}
	}
	for _, p := range r.policies {
		if !slices.Contains(record.Policies(), p) {
			return usageHint(jobfile.Meant(p, record.Policies()), "--policy %s is not known", p)
		}
	}
	if !slices.Contains(placements, r.placement) {
		return usageHint(jobfile.Meant(r.placement, placements), "--placement %s is not known", r.placement)
	}
	r.order.Ref = r.placement == "ref"
	for flag, d := range map[string]struct {
		text string
		to   *time.Duration
	}{"latency": {r.latency, &r.order.Latency}, "until": {r.until, &r.order.Until}} {
		if d.text == "" {
			continue
		}
		ms, err := jobfile.ParseDuration(d.text)
		if err != nil || ms < 0 {
			return usage("--%s: %q is no time", flag, d.text)
		}
		*d.to = time.Duration(ms) * time.Millisecond
	}
	return nil
}

// read reads the record, and the limits beside it.
func (r *replayFlags) read() (*record.Trace, error) {
	rows, err := os.Open(r.record)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	name := r.limits
	if name == "" {
		name = besideName(r.record)
	}
	limits, err := os.Open(name)
	if err != nil {
		if r.limits != "" {
			return nil, err
		}
		return record.ReadCSV(rows, nil)
	}
	defer limits.Close()
	return record.ReadCSV(rows, limits)
}

// besideName is where the limits of a record lie, if they do.
func besideName(record string) string {
	dir, name := filepath.Split(record)
	stem, ending, _ := strings.Cut(name, ".")
	return filepath.Join(dir, stem+"_extra."+ending)
}

// racksOf spreads machines over racks, the first ones filled first.
func racksOf(nodes, racks int) []int {
	if racks == 0 {
		racks = (nodes + 7) / 8
	}
	all := make([]int, racks)
	for i := range all {
		all[i] = nodes / racks
		if i < nodes%racks {
			all[i]++
		}
	}
	return all
}

// onInterrupt does something at the first Ctrl-C; the next one ends the program. What it answers ends that.
func onInterrupt(do func()) (end func()) {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			do()
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
