package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file implements `watch` and `events`, which show current and past changes.

func (a *app) watchCommand() *cobra.Command {
	q := &messages.Watch{Present: true, Reasons: true}
	var labels []string
	c := &cobra.Command{
		Use:   "watch [JOB]...",
		Short: "follow the changes of jobs and nodes",
		Long: "Prints the state of the named jobs, or of all jobs and nodes, and then one line per change, until\n" +
			"Ctrl-C.",
		Example: "  synapse-cli watch JOB\n  synapse-cli watch --nodes -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := parseSelector(labels)
			switch {
			case err != nil:
				return err
			case q.Nodes && len(args)+len(labels) > 0:
				return exit.Hint("run `"+a.name+" events -f NODE` to follow a node",
					"--nodes cannot be combined with JOB")
			}
			q.Labels = chosen.equal()
			q.Progress = a.style.Format != ""
			if !q.Jobs && !q.Nodes {
				q.Jobs, q.Nodes = true, len(args) == 0 && len(labels) == 0
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				for _, word := range args {
					found, err := c.Scope(ctx, word, c.Named)
					if err != nil {
						return err
					}
					q.Ids = append(q.Ids, idsOf(found)...)
				}
				if len(q.Ids) == 0 {
					return c.Follow(ctx, q, a.lost, func(e *messages.Event) (bool, error) {
						if e.GetJob() != nil && !chosen.job(e.GetJob()) {
							return false, nil
						}
						return a.shown(e)
					})
				}
				return c.Follow(ctx, q, a.lost, a.shownByName())
			})
		},
		ValidArgsFunction: a.completeJobs,
	}
	f := c.Flags()
	f.BoolVar(&q.Jobs, "jobs", false, "show only jobs")
	f.BoolVar(&q.Nodes, "nodes", false, "show only nodes")
	f.StringArrayVarP(&labels, "label", "l", nil, "show only jobs with these labels: "+selectorHelp)
	return a.objectFlag(c)
}

// shown prints an event. It skips the event that marks the end of the initial state.
func (a *app) shown(e *messages.Event) (bool, error) {
	if e.GetJob() == nil && e.GetNode() == nil && e.GetGroup() == 0 {
		return false, nil
	}
	return false, show.Event(a.out, a.style, e)
}

// shownByName prints events of named jobs. An event about a group of waiting jobs is printed for each of them.
func (a *app) shownByName() client.Look {
	known := map[string]*messages.JobStatus{}
	return func(e *messages.Event) (bool, error) {
		if j := e.GetJob(); j != nil {
			known[j.GetRecord().GetId()] = j
		}
		if e.GetGroup() == 0 {
			return a.shown(e)
		}
		for _, id := range slices.Sorted(maps.Keys(known)) {
			j := client.Waits(e, known[id])
			if j == nil || j.GetReason() == known[id].GetReason() {
				continue
			}
			known[id] = j
			text := "job " + id + " " + j.GetPhase() + ": " + j.GetReason()
			if err := show.Event(a.out, a.style, &messages.Event{Seq: e.GetSeq(), AtUnixMs: e.GetAtUnixMs(), Text: text,
				Job: j}); err != nil {
				return false, err
			}
		}
		return false, nil
	}
}

// kept is the number of requested past events. It is a little less than a scheduler keeps, so that new events do
// not push the requested ones out.
const kept = 950

func (a *app) eventsCommand() *cobra.Command {
	follow, since := false, ""
	var labels []string
	c := &cobra.Command{
		Use:   "events [JOB | NODE]...",
		Short: "show recent changes of jobs and nodes",
		Long: "Shows recent changes of all jobs and nodes, or only of the named ones. The scheduler keeps about the\n" +
			"last thousand changes. A new leader starts without earlier changes.",
		Example: "  synapse-cli events --since 1h\n  synapse-cli events -f n17",
		RunE: func(_ *cobra.Command, args []string) error {
			sinceMs, err := moment("since", since, a.style.NowMs)
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				ids, unknown, err := resolve(ctx, c, args)
				if err != nil {
					return err
				}
				if len(labels) > 0 {
					jobs, err := a.byLabels(ctx, c, labels)
					if err != nil {
						return err
					}
					for _, j := range jobs {
						ids = append(ids, j.GetRecord().GetId())
					}
				}
				return a.events(ctx, c, ids, unknown, sinceMs, follow)
			})
		},
	}
	labelFlag(c, &labels, "the changes of unfinished jobs")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue to show changes until Ctrl-C")
	c.Flags().StringVar(&since, "since", "",
		"show only changes at this `time` or later: 24h, 7d, 2026-11-01 or 2026-11-01T08:00:00Z")
	c.ValidArgsFunction = a.completeBoth
	return a.objectFlag(c)
}

// resolve finds jobs, or else nodes. An unknown name is used unchanged, because a removed node still has events.
// unknown holds the errors of the search.
func resolve(ctx context.Context, c *client.Client, names []string) (ids []string, unknown map[string]error,
	err error) {
	unknown = map[string]error{}
	for _, name := range names {
		id := name
		found, err := c.Scope(ctx, name, c.Named)
		switch {
		case err == nil:
			ids = append(ids, idsOf(found)...)
			continue
		case exit.Code(err) == exit.NotFound:
			if node, err := c.Node(ctx, name); err == nil {
				id = node.GetRecord().GetId()
			} else if exit.Code(err) != exit.NotFound {
				return nil, nil, err
			} else {
				unknown[id] = &exit.Failure{Code: exit.NotFound,
					Text: fmt.Sprintf("no job, node or event matches %q", name),
					Hint: "run `get jobs` and `get nodes` for a list"}
			}
		default:
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	return ids, unknown, nil
}

// events first requests the number of the last event, with an empty watch, and then the events before it. A
// leader's events start after its epoch's first number, so it requests no more than can exist.
func (a *app) events(
	ctx context.Context, c *client.Client, ids []string, unknown map[string]error, sinceMs int64, follow bool,
) error {
	var last uint64
	err := c.Follow(ctx, &messages.Watch{Jobs: true, Ids: []string{"-"}, Present: true}, a.lost,
		func(e *messages.Event) (bool, error) {
			last = e.GetSeq()
			return e.GetSynced(), nil
		})
	if err != nil {
		return err
	}
	first := last &^ (1<<32 - 1)
	after := max(first, last-min(last, kept), 1)
	return c.Follow(ctx, &messages.Watch{Jobs: true, Nodes: true, Ids: ids, After: after}, a.lost,
		func(e *messages.Event) (bool, error) {
			delete(unknown, e.GetJob().GetRecord().GetId()+e.GetNode().GetRecord().GetId())
			if e.GetSynced() {
				for _, id := range ids { // in the order of the command line
					if unknown[id] != nil {
						return true, unknown[id]
					}
				}
				return !follow, nil
			}
			if e.GetAtUnixMs() < sinceMs {
				return false, nil
			}
			return a.shown(e)
		})
}
