package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/sim/record"
)

// This file reads the other input of `simulate`: the description of a generated workload, the nodes, and earlier
// output.

// drawn generates a workload from its description.
func (r *replayFlags) drawn() (*record.Trace, error) {
	s := record.DefaultSynthetic()
	for part := range strings.SplitSeq(r.record, ",") {
		if r.record == "" {
			break
		}
		word, number, _ := strings.Cut(part, "=")
		if spelling.Nearest(word, record.SyntheticWords()) != word {
			return nil, exit.Hint(spelling.Meant(word, record.SyntheticWords()), "--synthetic: unknown parameter %q",
				word)
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, exit.Hint("write "+word+"=NUMBER", "--synthetic: %q is not a whole number", part)
		}
		if err := s.Set(word, n); err != nil {
			return nil, exit.Usage("--synthetic: %s", err)
		}
	}
	return s.Trace(), nil
}

// readQueues reads the queues of the replay, and checks that they contain the queue of each job.
func (r *replayFlags) readQueues(trace *record.Trace) error {
	if r.queues == "" {
		return nil
	}
	data, err := os.ReadFile(r.queues)
	var path *os.PathError
	if errors.As(err, &path) {
		return exit.Usage("%s: %s", path.Path, path.Err)
	}
	queues, err := jobfile.ParseQueues(data)
	if problems, ok := err.(jobfile.Problems); ok {
		return refusedFile(r.queues, problems)
	}
	for i := range trace.Jobs {
		if queue := trace.Jobs[i].Queue; queues.Default == "" && queues.Find(queue) < 0 {
			return exit.Hint("add the queue, or a default queue, to the file",
				"%s: %s has a job of the unknown queue %q",
				r.queues, r.record, queue)
		}
	}
	if r.order.Preempt && !queues.Preempts() {
		return exit.Hint("add preemption: {shortest: true} to a queue",
			"--preemption: no queue of %s allows preemption",
			r.queues)
	}
	r.order.Queues = queues
	return nil
}

// machines creates the requested cluster.
func (a *app) machines(r *replayFlags) error {
	if r.cluster == "" {
		r.order.Cluster = record.NewCluster(record.InRacks(r.nodes, r.racks), r.gpus)
		return nil
	}
	file, err := os.Open(r.cluster)
	var path *os.PathError
	if errors.As(err, &path) {
		return exit.Usage("%s: %s", path.Path, path.Err)
	}
	defer file.Close()
	cluster, without, err := record.ReadCluster(file)
	if err != nil {
		return exit.Usage("%s: %s", r.cluster, err)
	}
	if without > 0 {
		a.say("skipped %d nodes without GPUs", without)
	}
	if r.order.Ref && !cluster.Alike() {
		return exit.Usage("--placement ref requires identical nodes")
	}
	r.order.Cluster = cluster
	return nil
}

// sayTooBig prints the gangs that were left out because they can never fit on this cluster.
func (a *app) sayTooBig(r *record.Result) {
	for i, line := range r.TooBigLines {
		if i == badShown {
			break
		}
		a.say("skipped line %d: the job can never run on this cluster", line)
	}
	if r.TooBig > badShown {
		a.say("and %d more", r.TooBig-badShown)
	}
}

// besideName returns the file with a record's limits, if it exists.
func besideName(record string) string {
	dir, name := filepath.Split(record)
	stem, ending, _ := strings.Cut(name, ".")
	return filepath.Join(dir, stem+"_extra."+ending)
}

func (a *app) compareCommand() *cobra.Command {
	return a.objectFlag(&cobra.Command{
		Use:   "compare A.json B.json",
		Short: "compare two replays",
		Long: "Shows the results of two replays side by side, each from `simulate -o json`. The command compares\n" +
			"the policies that both replays have. If each replay has only one policy, these two policies are\n" +
			"compared. If a replay has several runs, the table shows the mean and the standard deviation.",
		Example: "  synapse-cli simulate jobs.csv --nodes 40 --runs 5 --jitter 0.01 -o json > 40.json\n" +
			"  synapse-cli simulate jobs.csv --nodes 50 --runs 5 --jitter 0.01 -o json > 50.json\n" +
			"  synapse-cli simulate compare 40.json 50.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exit.Hint("run `"+a.name+" simulate compare 40.json 50.json`",
					"simulate compare needs two files, got %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var both [2][]*record.Result
			for i, name := range args {
				var err error
				if both[i], err = printed(name); err != nil {
					return err
				}
			}
			if err := show.Compare(a.out, a.style, both[0], both[1]); err != nil {
				return exit.Usage("%s and %s: %s", args[0], args[1], err)
			}
			return nil
		},
	})
}

// printed reads the output of `simulate -o json`.
func printed(name string) ([]*record.Result, error) {
	text, err := os.ReadFile(name)
	var path *os.PathError
	if errors.As(err, &path) {
		return nil, exit.Usage("%s: %s", path.Path, path.Err)
	}
	var all struct {
		Kind string
		Runs []*record.Result
	}
	if err := json.Unmarshal(text, &all); err != nil || all.Kind != "Simulation" || len(all.Runs) == 0 {
		return nil, exit.Hint("create the file with `simulate -o json > FILE`", "%s is not a replay in JSON format",
			name)
	}
	return all.Runs, nil
}
