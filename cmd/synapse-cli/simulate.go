package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/sim/record"
)

// This file implements `simulate`, which replays a recorded workload on a cluster.

// replayFlags holds the flags of `simulate`.
type replayFlags struct {
	record, limits string
	format         string
	procsToGPU     int
	synthetic      bool
	print          bool
	cluster        string
	nodes, gpus    int
	racks          int
	cut            record.Cut
	policies       []string
	placement      string
	latency, until string
	order          record.Order
	runs           int
	report         string
	queues         string
	checkpoint     string
}

// placements lists the values of --placement.
var placements = []string{"own", "ref"}

func (a *app) simulateCommand() *cobra.Command {
	r := &replayFlags{}
	c := a.objectFlag(&cobra.Command{
		Use:   "simulate RECORD",
		Short: "replay a recorded workload on a simulated cluster",
		Long: "Replays recorded jobs on a simulated cluster of a given size, with the scheduler of this version.\n" +
			"The simulation uses virtual time, and no node or job fails. The result shows how long jobs would\n" +
			"have waited and how well the GPUs would have been used. The command contacts no cluster and writes\n" +
			"only the --report file.\n\n" +
			"RECORD is a file, compressed or not, or - for standard input. The command detects its format:\n" +
			"  csv      Columns submit_s, duration_s and gpus; optionally job_id, tasks, user, queue, requested_walltime_s\n" +
			"           and real_wait_s. A second file (NAME_extra.csv or --limits) can have the columns job_id,\n" +
			"           requested_walltime_s and real_wait_s.\n" +
			"  sacct    Output of Slurm's `sacct --parsable2` with JobID, Submit, Start, ElapsedRaw and AllocTRES;\n" +
			"           optionally ReqTRES, Timelimit, State, User and Partition.\n" +
			"  history  Output of `" +
			a.name +
			" history -o json`.\n" +
			"  swf      The standard workload format; each processor counts as one GPU (see --procs-per-gpu).\n\n" +
			"The number of GPUs of a job is the total of its gang. A gang that fits on one node uses one node; a\n" +
			"larger gang uses complete nodes and at most one partial node. If --synthetic is set, the command\n" +
			"generates the workload. The argument RECORD can then set parameters of the workload; the defaults are\n" +
			"jobs=2500,days=7,users=40,gangs=8,bursts=8,seed=1 (gangs and bursts in percent).\n\n" +
			"The policies synapse and synapse-fifo are those of a cluster. The other policies are for comparison\n" +
			"only, and use time limits, or the actual run time of each job if --oracle is set.\n" +
			"  synapse       Default policy: plans ahead with time limits and estimated run times.\n" +
			"  synapse-fifo  Policy of a cluster with the order fifo.\n" +
			"  fifo          In the order of submission; a job that does not fit blocks the jobs after it.\n" +
			"  greedy        In the order of submission; jobs that do not fit are skipped.\n" +
			"  easy          Like fifo, but later jobs may start if they do not delay the first job.\n" +
			"  sjf           Like fifo, but in the order of run time, shortest first.\n" +
			"  sjfskip       Like greedy, but in the order of run time, shortest first.\n" +
			"  ssf           Like fifo, but in the order of run time times GPUs, smallest first.",
		Example: "  synapse-cli simulate --synthetic --nodes 16\n" +
			"  synapse-cli simulate jobs.csv --nodes 40\n" +
			"  synapse-cli simulate sacct.txt --nodes 40    # from sacct -aXP -o " +
			"JobID,Submit,Start,ElapsedRaw,Timelimit,AllocTRES,User\n" +
			"  synapse-cli simulate jobs.csv --nodes 40 --policy synapse,easy,sjf --oracle\n" +
			"  synapse-cli simulate jobs.csv --nodes 40 --policy synapse,easy --report waits.html\n" +
			"  synapse-cli simulate jobs.csv --nodes 50 --load 0.9 --runs 5 --jitter 0.01 -o json",
		Args: func(c *cobra.Command, args []string) error {
			if r.synthetic && len(args) == 0 {
				return nil
			}
			return named("record", "RECORD", 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			r.record = strings.Join(args, "")
			if c.Flags().Changed("load") && !c.Flags().Changed("timescale") {
				r.cut.Timescale = 0
			}
			return a.simulate(r)
		},
	})
	r.flags(a, c)
	c.AddCommand(a.compareCommand())
	return c
}

func (r *replayFlags) flags(a *app, c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&r.nodes, "nodes", 0, "number of nodes")
	f.IntVar(&r.gpus, "gpus-per-node", 8, "number of GPUs per node")
	f.IntVar(&r.racks, "racks", 0, "number of racks (default: one per 8 nodes)")
	f.StringVar(&r.cluster, "cluster", "",
		"`FILE` with the nodes of the cluster: output of `get nodes -o json`, or CSV with the columns `nodes`, gpus "+
			"and racks")
	f.StringVar(&r.format, "format", "",
		"record format: "+strings.Join(record.Formats(), ", ")+" (default: detected)")
	f.BoolVar(&r.synthetic, "synthetic", false, "generate a workload; the argument, if any, sets its parameters")
	f.BoolVar(&r.print, "print", false, "print the jobs as CSV without replaying them")
	f.StringVar(&r.limits, "limits", "", "CSV `FILE` with the time limits of the jobs")
	f.IntVar(&r.procsToGPU, "procs-per-gpu", 1, "number of swf processors that count as one GPU")
	f.IntVar(&r.cut.First, "first-row", 0, "number of rows to skip at the start of RECORD")
	f.IntVar(&r.cut.Rows, "rows", 0, "number of rows to replay; 0 replays all")
	f.Float64Var(&r.cut.Timescale, "timescale", 1, "factor for the time between arrivals; 0 fits the arrivals to --load")
	f.Float64Var(&r.cut.Load, "load", 0.9,
		"share of the GPUs that arriving jobs request; used if --timescale is 0, or if only --load is set")
	f.StringSliceVar(&r.policies, "policy", []string{record.Synapse},
		"`POLICY` to replay, several separated by commas: "+strings.Join(record.Policies(), ", "))
	f.StringVar(&r.placement, "placement", "own",
		"gang placement of the comparison policies: own (as in the cluster) or ref (as in published simulators)")
	f.BoolVar(&r.order.Oracle, "oracle", false, "give the comparison policies the actual run time of each job")
	f.Uint64Var(&r.order.Seed, "seed", 1, "random seed")
	f.Float64Var(&r.order.Shake, "jitter", 0, "maximum random change of each run time, as a share: 0.01 means up "+
		"to 1% longer or shorter")
	f.IntVar(&r.runs, "runs", 1, "number of replays, each with a different seed")
	f.StringVar(&r.until, "until", "",
		"simulated time from the first arrival to the end of the replay (default: until all jobs have ended)")
	f.StringVar(&r.latency, "latency", "", "simulated duration of each message, disk write and preparation of a "+
		"task (default: none)")
	f.StringVar(&r.report, "report", "", "HTML `FILE` for a report with charts")
	f.StringVar(&r.queues, "queues", "",
		"queue configuration `FILE` of kind Queues for synapse and synapse-fifo: order, limits and weights")
	f.BoolVar(&r.order.Preempt, "preemption", false,
		"enable preemption in synapse and synapse-fifo, as --queues defines it; without --queues, long jobs are "+
			"preempted for short jobs")
	f.StringVar(&r.checkpoint, "checkpoint", "", "checkpoint interval of jobs, such as 10m (default: never)")
	f.BoolVar(&r.order.Check, "check", false, "run the simulator's checkers at every step")
	for flag, words := range map[string][]string{"policy": record.Policies(), "placement": placements,
		"format": record.Formats()} { //order: each is independent
		a.completeWords(c, flag, words)
	}
}

// simulate replays a record under each policy.
func (a *app) simulate(r *replayFlags) error {
	if err := r.check(); err != nil {
		return err
	}
	trace, err := a.workload(r)
	if err != nil {
		return err
	}
	if r.print {
		return record.WriteCSV(a.out, trace)
	}
	if err := a.machines(r); err != nil {
		return err
	}
	if err := r.readQueues(trace); err != nil {
		return err
	}
	r.order.Jobs, err = trace.Take(r.cut, r.order.Cluster.Sum())
	if err != nil {
		return exit.Usage("%s: %s", r.record, err)
	}
	to, err := openReport(r)
	if err != nil {
		return err
	}
	defer to.close()
	program, err := a.program("synapse-sim")
	if err != nil {
		return err
	}
	results, code, err := a.replays(program[0], r)
	if err != nil {
		return err
	}
	if err := to.write(r, results); err != nil {
		return err
	}
	return cmp.Or(show.Replays(a.out, a.style, results), exit.With(code))
}

// replays replays the record under each policy, until Ctrl-C. code is the exit code of the program.
func (a *app) replays(program string, r *replayFlags) (results []*record.Result, code int, err error) {
	interrupted := &atomic.Bool{}
	for _, policy := range r.policies {
		for run := range r.runs {
			o := r.order
			o.Policy, o.Seed = policy, o.Seed+uint64(run)
			result, err := a.replay(program, o, interrupted)
			if err != nil {
				return nil, exit.Failed, err
			}
			if results = append(results, result); len(results) == 1 {
				a.sayTooBig(result)
			}
			if interrupted.Load() {
				return results, exit.Interrupted, nil
			}
		}
	}
	return results, exit.OK, nil
}

// check refuses invalid flags. Of several errors it returns the first in the order of the flags.
func (r *replayFlags) check() error {
	if r.nodes < 1 && r.cluster == "" && !r.print {
		return exit.Hint("for example: --nodes 40", "--nodes is missing: it sets the number of nodes in the cluster")
	}
	for _, f := range []struct {
		flag  string
		wrong bool
	}{
		{"gpus-per-node", r.gpus < 1 || r.gpus > record.MaxGPUs}, {"racks", r.racks < 0 || r.racks > r.nodes},
		{"procs-per-gpu", r.procsToGPU < 1},
		{"first-row", r.cut.First < 0}, {"rows", r.cut.Rows < 0}, {"timescale", r.cut.Timescale < 0},
		{"load", r.cut.Load <= 0},
		{"jitter", r.order.Shake < 0 || r.order.Shake >= 1}, {"runs", r.runs < 1},
	} {
		if f.wrong {
			return exit.Usage("--%s is out of range", f.flag)
		}
	}
	for _, p := range r.policies {
		if r.queues != "" && slices.Contains(record.Rivals(), p) {
			return exit.Hint("for example: --policy synapse,synapse-fifo",
				"--queues: policy %s does not support queues", p)
		}
	}
	switch {
	case r.order.Preempt && !slices.ContainsFunc(r.policies, record.IsOwn):
		return exit.Hint("for example: --policy synapse", "--preemption: policy %s does not preempt",
			strings.Join(r.policies, ","))
	case r.order.Preempt && r.queues == "" && r.checkpoint == "":
		return exit.Hint("for example: --checkpoint 10m",
			"--preemption requires --checkpoint, the time between checkpoints")
	case r.checkpoint != "" && !r.order.Preempt:
		return exit.Usage("--checkpoint requires --preemption")
	case r.cluster != "" && r.nodes > 0:
		return exit.Usage("--cluster and --nodes cannot be combined")
	case r.print && r.report != "":
		return exit.Usage("--print and --report cannot be combined")
	case r.report == "-":
		return exit.Hint("for example: --report waits.html", "--report must name a file: standard output has the table")
	case r.synthetic && (r.limits != "" || r.format != ""):
		return exit.Usage("--synthetic cannot be combined with --limits or --format")
	}
	for _, p := range r.policies {
		if !slices.Contains(record.Policies(), p) {
			return exit.Hint(spelling.Meant(p, record.Policies()), "--policy %s: unknown policy", p)
		}
	}
	for _, f := range []struct {
		flag, word string
		words      []string
	}{{"placement", r.placement, placements}, {"format", cmp.Or(r.format, "csv"), record.Formats()}} {
		if !slices.Contains(f.words, f.word) {
			return exit.Hint(spelling.Meant(f.word, f.words), "--%s %s: unknown value", f.flag, f.word)
		}
	}
	r.order.Ref = r.placement == "ref"
	return cmp.Or(spanFlag("latency", r.latency, &r.order.Latency), spanFlag("until", r.until, &r.order.Until),
		spanFlag("checkpoint", r.checkpoint, &r.order.Checkpoint))
}

// spanFlag parses a positive duration.
func spanFlag(flag, text string, to *time.Duration) error {
	if text == "" {
		return nil
	}
	ms, err := jobfile.ParseDuration(text)
	if err != nil || ms <= 0 {
		return exit.Hint("write 90s, 5m, 24h or 2d", "--%s: %q is not a duration", flag, text)
	}
	*to = time.Duration(ms) * time.Millisecond
	return nil
}

// workload reads the record, or generates one.
func (a *app) workload(r *replayFlags) (*record.Trace, error) {
	if r.synthetic {
		return r.drawn()
	}
	trace, err := r.read()
	var path *os.PathError
	var beside *record.LimitsError
	switch {
	case errors.As(err, &path):
		return nil, exit.Usage("%s: %s", path.Path, path.Err)
	case errors.As(err, &beside):
		return nil, exit.Usage("%s: %s", cmp.Or(r.limits, besideName(r.record)), err)
	case err != nil:
		return nil, exit.Usage("%s: %s", r.record, err)
	}
	for i, bad := range trace.Bad {
		if i == badShown {
			a.say("and %d more", len(trace.Bad)-i)
			break
		}
		a.say("skipped: %s", bad)
	}
	for _, aside := range trace.Aside {
		a.say("skipped %d rows: %s", aside.Rows, aside.Why)
	}
	return trace, nil
}

// badShown limits the number of skipped rows that are named.
const badShown = 10

// read reads the record, and the file of limits next to it.
func (r *replayFlags) read() (*record.Trace, error) {
	source := record.Input{Format: r.format, ProcsToGPU: r.procsToGPU}
	var rows io.Reader = os.Stdin
	if r.record != "-" {
		file, err := os.Open(r.record)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		rows = file
	}
	limits, err := os.Open(cmp.Or(r.limits, besideName(r.record)))
	switch {
	case err == nil:
		defer limits.Close()
		source.Limits = limits
	case r.limits != "":
		return nil, err
	}
	return record.Read(rows, source)
}
