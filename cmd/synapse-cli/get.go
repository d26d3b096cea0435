package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file implements `get`, which lists jobs and nodes.

func (a *app) getCommand() *cobra.Command {
	l := &listing{}
	c := &cobra.Command{
		Use:   "get TYPE[,TYPE]...",
		Short: "list jobs, nodes or queues",
		Long: "Lists one type of object. `get jobs,nodes` lists several types, one list after the other: with -o json\n" +
			"or -o yaml, each list is a document.",
		Example: "  synapse-cli get jobs\n  synapse-cli get jobs,nodes,queues\n  synapse-cli get events --since 1h",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && strings.Contains(args[0], ",") {
				return nil
			}
			return cobra.NoArgs(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Hint("use `"+a.name+" get jobs`, `get nodes` or `get queues`",
					"the type to list is missing")
			}
			kinds, err := kindsOf(args[0])
			if err != nil {
				return err
			}
			return a.getKinds(l, kinds)
		},
	}
	a.listFlags(c)
	labelFlag(c, &l.labels, "only jobs and nodes")
	events := a.eventsCommand()
	c.AddCommand(a.getJobsCommand(), a.getNodesCommand(), a.getQueuesCommand(), events)
	return c
}

// listing holds the flags of a list.
type listing struct {
	watch, me, live bool
	idle            time.Duration // list only jobs that have done nothing for this time; 0: all
	slow            bool          // list only nodes with slow ranks
	start           bool          // show when each waiting job starts
	sort            string
	sortBy          string // path of a field of the objects; empty: sort decides
	labels          []string
	chosen          selector
	query           messages.ListJobs
}

func (a *app) getJobsCommand() *cobra.Command {
	l := &listing{}
	c := &cobra.Command{
		Use:     "jobs [JOB]...",
		Aliases: []string{"job"},
		Short:   "list jobs",
		Long: "Lists unfinished jobs and the most recently finished jobs, oldest first. If you name jobs, the\n" +
			"command lists only these jobs.",
		Example: "  synapse-cli get jobs --live -o wide\n  synapse-cli get jobs --start\n" +
			"  synapse-cli get jobs --idle=2h\n" +
			"  synapse-cli get jobs -l team=nlp --phase running -q\n  synapse-cli get job JOB -o yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && (l.watch || l.me || l.live || len(l.labels) > 0 || len(l.query.Phases) > 0 ||
				l.query.Owner != "" || l.query.Queue != "") {
				return exit.Hint("use `"+a.name+" watch JOB` to follow a job",
					"filters and -w cannot be combined with JOB")
			}
			if l.start && l.watch {
				return exit.Hint("run `"+a.name+" get jobs --start` again to refresh the estimates",
					"--start and -w cannot be combined: a new estimate is not a change of the job")
			}
			if l.idle < 0 || l.idle > 0 && l.watch {
				return exit.Hint("use `"+a.name+" get jobs --idle` or `--idle=2h`",
					"--idle needs a positive duration, and cannot be combined with -w")
			}
			if l.me && l.query.Owner != "" {
				return exit.Usage("--me and --owner cannot be combined")
			}
			for i, word := range l.query.Phases {
				if l.query.Phases[i] = messages.PhaseOf(word); !slices.Contains(messages.Phases, l.query.Phases[i]) {
					return exit.Hint(spelling.Meant(word, messages.Phases), "--phase %s: unknown phase", word)
				}
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.getJobs(ctx, c, l, args) })
		},
		ValidArgsFunction: a.completeJobs,
	}
	f := c.Flags()
	a.listFlags(c)
	f.BoolVarP(&l.watch, "watch", "w", false, "continue to show changes until Ctrl-C")
	f.BoolVar(&l.query.Elements, "elements", false, "also list array elements that have become jobs")
	f.StringVar(&l.query.Array, "array", "", "list only elements of this `array` that have become jobs")
	f.BoolVar(&l.me, "me", false, "list only my own jobs")
	f.BoolVar(&l.live, "live", false, "list only unfinished jobs")
	f.BoolVar(&l.start, "start", false, "list only waiting jobs, with the estimated start of each")
	f.DurationVar(&l.idle, "idle", 0, "list only running jobs that hold resources and have done nothing for this time; "+
		"--idle alone means 30m")
	f.Lookup("idle").NoOptDefVal = "30m"
	f.StringSliceVar(&l.query.Phases, "phase", nil, "list only jobs in these phases, such as queued or running")
	f.StringVar(&l.query.Owner, "owner", "", "list only jobs of this owner")
	f.StringVar(&l.query.Queue, "queue", "", "list only jobs in this queue")
	f.StringArrayVarP(&l.labels, "label", "l", nil, "list only jobs with these labels: "+selectorHelp)
	f.StringVar(&l.sort, "sort", "age", "sort key: "+strings.Join(jobOrders(), ", ")+"; the prefix - reverses the "+
		"order")
	a.fieldFlags(c, l)
	a.completeWords(c, "phase", messages.Phases)
	a.completeWords(c, "sort", jobOrders())
	a.completeFlag(c, "queue", a.completeQueues)
	return c
}

func (a *app) getJobs(ctx context.Context, c *client.Client, l *listing, args []string) error {
	if len(args) > 0 {
		f := &exit.Failures{Tell: a.tell}
		named, err := c.Scoped(ctx, args, c.Named, f.Note)
		if err != nil {
			return err
		}
		a.fetched(ctx, c, named...)
		switch {
		case l.start && len(named) > 0:
			f.Note(show.Starts(a.out, a.style, named))
		case len(args) == 1 && len(named) == 1:
			f.Note(show.Job(a.out, a.style, named[0]))
		case len(named) > 0:
			f.Note(show.Jobs(a.out, a.style, named))
		}
		return f.First
	}
	less, err := orderOf(jobSorts, l.sort)
	if err != nil {
		return err
	}
	if l.chosen, err = parseSelector(l.labels); err != nil {
		return err
	}
	l.query.Labels = l.chosen.equal()
	if l.me {
		if l.query.Owner, err = c.Name(ctx); err != nil {
			return err
		}
	}
	if l.watch {
		watch := &messages.Watch{Jobs: true, Owner: l.query.Owner, Queue: l.query.Queue, Labels: l.query.Labels}
		return follow(ctx, a, c, watch, less, l.job, show.Jobs)
	}
	jobs, err := c.Jobs(ctx, &l.query)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j *messages.JobStatus) bool {
		return l.live && over(j) || l.start && !messages.Waits(j.GetPhase()) || !l.chosen.job(j) ||
			l.idle > 0 && !messages.Idle(j, l.idle.Milliseconds())
	})
	slices.SortStableFunc(jobs, less)
	if err := l.sortJobs(jobs, a.style.NowMs); err != nil {
		return err
	}
	switch {
	case len(jobs) > 0 || !a.forPeople():
	case l.start:
		a.say("no waiting jobs")
	case l.idle > 0:
		a.say("no job is known to be idle for " + messages.Span(l.idle.Milliseconds()))
	default:
		a.say("no jobs")
	}
	a.fetched(ctx, c, jobs...)
	if l.start {
		return show.Starts(a.out, a.style, jobs)
	}
	if l.idle > 0 {
		return show.IdleJobs(a.out, a.style, jobs)
	}
	return show.Jobs(a.out, a.style, jobs)
}

// found looks up the named objects. After an unknown name it continues with the others.
func found[T any](a *app, names []string, look func(string) (T, error)) (all []T, f *exit.Failures) {
	f = &exit.Failures{Tell: a.tell}
	for _, name := range names {
		one, err := look(name)
		if f.Note(err); err == nil {
			all = append(all, one)
		}
	}
	return all, f
}

func over(j *messages.JobStatus) bool { return j.GetRecord().GetState().Terminal() }

// forPeople reports whether a table is printed. An empty table then needs a sentence.
func (a *app) forPeople() bool {
	return (a.style.Format == "" || a.style.Format == "wide") && !a.style.Quiet && !a.style.Parsable
}

// job returns the job of an event, if the list would contain it.
func (l *listing) job(e *messages.Event) (*messages.JobStatus, bool) {
	j := e.GetJob()
	return j, j != nil && !(l.live && over(j)) && l.chosen.job(j) &&
		(len(l.query.Phases) == 0 || slices.Contains(l.query.Phases, j.GetPhase()))
}

// follow prints a list and then a row for each change. Both come from one watch, because changes between a list and
// a later watch would be lost.
func follow[T any](ctx context.Context, a *app, c *client.Client, watch *messages.Watch, less func(x, y T) int,
	pick func(*messages.Event) (T, bool), write func(io.Writer, show.Style, []T) error) error {
	var list []T
	style, synced := a.style, false
	watch.Present = true
	return c.Follow(ctx, watch, a.lost, func(e *messages.Event) (bool, error) {
		one, fits := pick(e)
		switch {
		case e.GetSynced() && !synced:
			slices.SortStableFunc(list, less)
			err := cmp.Or(a.next(), write(a.out, style, list))
			list, synced, style.NoHeaders = nil, true, true
			return false, err
		case !fits || e.GetHidden():
			return false, nil
		case !synced:
			list = append(list, one)
			return false, nil
		}
		style.NowMs = max(style.NowMs, e.GetAtUnixMs())
		if err := a.next(); err != nil {
			return false, err
		}
		return false, write(a.out, style, []T{one})
	})
}

func (a *app) getNodesCommand() *cobra.Command {
	l := &listing{}
	c := &cobra.Command{
		Use:     "nodes [NODE]...",
		Aliases: []string{"node"},
		Short:   "list nodes with their resources and usage",
		Example: "  synapse-cli get nodes -o wide\n  synapse-cli get nodes -l pool=a --sort gpus\n" +
			"  synapse-cli get nodes --slow",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && (l.watch || len(l.labels) > 0) {
				return exit.Usage("-l and -w cannot be combined with NODE")
			}
			if l.slow && (l.watch || len(args) > 0) {
				return exit.Hint("use `"+a.name+" get nodes --slow`", "--slow cannot be combined with -w or NODE")
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.getNodes(ctx, c, l, args) })
		},
		ValidArgsFunction: a.completeNodes,
	}
	f := c.Flags()
	a.listFlags(c)
	f.BoolVarP(&l.watch, "watch", "w", false, "continue to show changes until Ctrl-C")
	f.StringArrayVarP(&l.labels, "label", "l", nil,
		"list only nodes with these labels or topology domains: "+selectorHelp)
	f.BoolVar(&l.slow, "slow", false, "list only nodes with ranks that need more than 1.2 times the median time of "+
		"their gang for a step")
	f.StringVar(&l.sort, "sort", "name",
		"sort key: "+strings.Join(nodeOrders(), ", ")+"; the prefix - reverses the order")
	a.fieldFlags(c, l)
	a.completeWords(c, "sort", nodeOrders())
	return c
}

func (a *app) getNodes(ctx context.Context, c *client.Client, l *listing, args []string) error {
	if len(args) > 0 {
		named, f := found(a, args, func(id string) (*messages.NodeStatus, error) { return c.Node(ctx, id) })
		switch {
		case len(args) == 1 && len(named) == 1:
			f.Note(show.Node(a.out, a.style, named[0]))
		case len(named) > 0:
			f.Note(show.Nodes(a.out, a.style, named))
		}
		return f.First
	}
	less, err := orderOf(nodeSorts, l.sort)
	if err != nil {
		return err
	}
	wanted, err := parseSelector(l.labels)
	if err != nil {
		return err
	}
	if l.watch {
		pick := func(e *messages.Event) (*messages.NodeStatus, bool) {
			return e.GetNode(), e.GetNode() != nil && wanted.node(e.GetNode())
		}
		return follow(ctx, a, c, &messages.Watch{Nodes: true}, less, pick, show.Nodes)
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	nodes = slices.DeleteFunc(nodes, func(n *messages.NodeStatus) bool { return !wanted.node(n) })
	slices.SortStableFunc(nodes, less)
	if err := l.sortNodes(nodes); err != nil {
		return err
	}
	if l.slow {
		return a.getSlow(ctx, c, nodes)
	}
	if len(nodes) == 0 && a.forPeople() {
		a.say("no nodes")
	}
	return show.Nodes(a.out, a.style, nodes)
}

// getSlow prints the nodes that have slow ranks of running jobs.
func (a *app) getSlow(ctx context.Context, c *client.Client, nodes []*messages.NodeStatus) error {
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Phases: []string{messages.PhaseRunning}, Elements: true})
	if err != nil {
		return err
	}
	some := slices.ContainsFunc(jobs, func(j *messages.JobStatus) bool { return j.GetProgress().GetSlowRanks() > 0 })
	if !some && a.forPeople() {
		a.say("no rank is known to be slower than the others of its gang")
	}
	return show.SlowNodes(a.out, a.style, nodes, jobs)
}

// order is one way to sort a list.
type order[T any] struct {
	name    string
	compare func(a, b T) int
}

var jobSorts = []order[*messages.JobStatus]{
	{"age", func(x, y *messages.JobStatus) int {
		return cmp.Or(cmp.Compare(x.GetRecord().GetSubmittedUnixMs(), y.GetRecord().GetSubmittedUnixMs()),
			cmp.Compare(x.GetRecord().GetArrival(), y.GetRecord().GetArrival()))
	}},
	{"id", func(x, y *messages.JobStatus) int { return cmp.Compare(x.GetRecord().GetId(), y.GetRecord().GetId()) }},
	{"name", func(x, y *messages.JobStatus) int {
		return cmp.Compare(x.GetRecord().GetSpec().Called(), y.GetRecord().GetSpec().Called())
	}},
	{"phase", func(x, y *messages.JobStatus) int { return cmp.Compare(x.GetPhase(), y.GetPhase()) }},
	{"priority", func(x, y *messages.JobStatus) int {
		return cmp.Compare(y.GetRecord().GetSpec().GetPriority(), x.GetRecord().GetSpec().GetPriority())
	}},
}

var nodeSorts = []order[*messages.NodeStatus]{
	{"name", func(x, y *messages.NodeStatus) int { return cmp.Compare(x.GetRecord().GetId(), y.GetRecord().GetId()) }},
	{"state", func(x, y *messages.NodeStatus) int {
		return cmp.Or(cmp.Compare(x.GetPhase(), y.GetPhase()), cmp.Compare(x.GetClosed(), y.GetClosed()))
	}},
	{"gpus", func(x, y *messages.NodeStatus) int {
		return cmp.Compare(y.GetLedger().GetFree().GetMilliGpu(), x.GetLedger().GetFree().GetMilliGpu())
	}},
}

func jobOrders() []string  { return orderNames(jobSorts) }
func nodeOrders() []string { return orderNames(nodeSorts) }

func orderNames[T any](orders []order[T]) []string {
	var names []string
	for _, o := range orders {
		names = append(names, o.name)
	}
	return names
}

func orderOf[T any](orders []order[T], name string) (func(a, b T) int, error) {
	bare, backwards := strings.CutPrefix(name, "-")
	for _, o := range orders {
		if o.name != bare {
			continue
		}
		if backwards {
			return func(x, y T) int { return o.compare(y, x) }, nil
		}
		return o.compare, nil
	}
	return nil, exit.Hint("use "+strings.Join(orderNames(orders), ", "), "--sort %s: unknown key", name)
}
