package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file owns commands that kubectl's users type and that other commands here answer: lists of several kinds, `get
// events`, `top nodes`, `top jobs` and `config`.

// listedKinds are the kinds that `get` lists.
var listedKinds = []string{"jobs", "nodes", "queues"}

// kindsOf parses the kinds of `get jobs,nodes`.
func kindsOf(text string) (all []string, err error) {
	for word := range strings.SplitSeq(text, ",") {
		kind := word
		if !slices.Contains(listedKinds, kind) {
			kind += "s"
		}
		if !slices.Contains(listedKinds, kind) {
			kind = kinds[word]
		}
		if !slices.Contains(listedKinds, kind) {
			return nil, exit.Hint(spelling.Meant(word, listedKinds), "get: unknown type %q", word)
		}
		if !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return all, nil
}

// getKinds lists several kinds, one list after the other.
func (a *app) getKinds(l *listing, kinds []string) error {
	if len(l.labels) > 0 && slices.Contains(kinds, "queues") {
		return exit.Usage("-l cannot be combined with queues: queues have no labels")
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		for _, kind := range kinds {
			if err := a.betweenLists(); err != nil {
				return err
			}
			var err error
			switch kind {
			case "jobs":
				err = a.getJobs(ctx, c, &listing{sort: "age", labels: l.labels}, nil)
			case "nodes":
				err = a.getNodes(ctx, c, &listing{sort: "name", labels: l.labels}, nil)
			default:
				err = a.getQueues(ctx, c)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// betweenLists separates two lists. Lists for programs have no empty line between them.
func (a *app) betweenLists() error {
	if a.style.Quiet || a.style.Parsable {
		return nil
	}
	return a.apart()
}

// topKinds adds `top nodes` and `top jobs`, which print their table once.
func (a *app) topKinds(top *cobra.Command) {
	var labels []string
	one := func(kind, short, long string, print func(context.Context, *client.Client, selector) error) {
		c := &cobra.Command{
			Use: kind, Aliases: []string{strings.TrimSuffix(kind, "s")}, Short: short, Long: long,
			Example: "  synapse-cli top " + kind, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				chosen, err := parseSelector(labels)
				if err != nil {
					return err
				}
				return a.with(func(ctx context.Context, c *client.Client) error { return print(ctx, c, chosen) })
			},
		}
		labelFlag(c, &labels, "only "+kind)
		c.Flags().BoolVar(&a.style.NoHeaders, "no-headers", false, "omit the header line")
		top.AddCommand(c)
	}
	one("nodes", "show the resources in use on each node",
		"Lists the nodes once. The nodes with the most GPUs in use are first. The amounts are the resources that\n"+
			"the scheduler has allocated, and the resources of the node.", a.topNodes)
	one("jobs", "show the resources of each unfinished job",
		"Lists the unfinished jobs once: the jobs with the most GPUs first, and then the waiting jobs in the order\n"+
			"of the queue. CPU is the number of cores in use, and GPU% the share of the last minute in which the GPUs\n"+
			"were busy. A dash means that a value is not measured.", a.topJobs)
}

func (a *app) topNodes(ctx context.Context, c *client.Client, chosen selector) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	nodes = slices.DeleteFunc(nodes, func(n *messages.NodeStatus) bool { return !chosen.node(n) })
	if len(nodes) == 0 {
		a.say("no nodes")
		return nil
	}
	return show.TopNodes(a.out, a.style, nodes)
}

func (a *app) topJobs(ctx context.Context, c *client.Client, chosen selector) error {
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Phases: livePhases, Labels: chosen.equal()})
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j *messages.JobStatus) bool { return over(j) || !chosen.job(j) })
	if len(jobs) == 0 {
		a.say("no unfinished jobs")
		return nil
	}
	return show.TopJobs(a.out, a.style, jobs)
}

// configCommand offers the contexts under the names of `kubectl config`.
func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "contexts under kubectl's names (contexts, context use)", Args: cobra.NoArgs, Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return exit.Hint("use `"+a.name+" config get-contexts`, `config current-context` or `config use-context NAME`",
				"the action of config is missing")
		},
	}
	list := a.contextsCommand()
	list.Use = "get-contexts"
	use := a.contextUseCommand()
	use.Use = "use-context NAME"
	c.AddCommand(list, use, &cobra.Command{
		Use: "current-context", Short: "print the name of the default cluster", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.contexts()
			if err != nil {
				return err
			}
			if all.Current == "" {
				return &exit.Failure{Code: exit.NotFound, Text: "no context is selected",
					Hint: "run `" + a.name + " login`, or `" + a.name + " context use NAME`"}
			}
			return a.data("%s", all.Current)
		},
	})
	return c
}
