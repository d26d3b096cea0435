package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements the commands that change nodes: `drain`, `cordon`, `uncordon`, `remove`, `note`.

// change is one kind of change of nodes.
type change struct {
	verb     messages.NodeVerb
	done     string // text after success
	reason   string
	deadline string
	atUnixMs int64 // start of a drain; 0: now
	mustSay  bool  // a reason is required, so that others know why the node is unschedulable
}

func (a *app) nodesCommand(use, short, example string, ch *change) *cobra.Command {
	var labels []string
	usageLine, why := use+" NODE...", "reason to record, shown to other users"
	if ch.mustSay {
		usageLine, why = usageLine+" --reason WHY", why+" (required)"
	}
	c := &cobra.Command{
		Use: usageLine, Short: short, Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && len(labels) == 0:
				return exit.Hint("run `"+a.name+" get nodes` for a list", "NODE is missing")
			case len(args) > 0 && len(labels) > 0:
				return exit.Usage("NODE and -l cannot be combined")
			case ch.mustSay && strings.TrimSpace(ch.reason) == "":
				return exit.Hint("add a reason: --reason \"fan broken, ticket 12\"", "--reason is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var deadlineMs int64
			if ch.deadline != "" {
				n, err := jobfile.ParseDuration(ch.deadline)
				if err != nil {
					return flagProblem("deadline", err)
				}
				deadlineMs = n
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				if len(labels) > 0 {
					chosen, err := nodesByLabels(ctx, c, labels)
					if err != nil {
						return err
					}
					args = chosen
				}
				return a.toNodes(ctx, c, args, ch, deadlineMs)
			})
		},
		ValidArgsFunction: a.completeNodes,
	}
	c.Flags().StringVarP(&ch.reason, "reason", "r", "", why)
	c.Flags().StringArrayVarP(&labels, "label", "l", nil,
		"select all nodes with these labels or topology domains: "+selectorHelp)
	return c
}

// nodesByLabels finds the nodes that -l selects.
func nodesByLabels(ctx context.Context, c *client.Client, labels []string) ([]string, error) {
	wanted, err := parseSelector(labels)
	if err != nil {
		return nil, err
	}
	all, err := c.Nodes(ctx)
	var ids []string
	for _, n := range all {
		if wanted.node(n) {
			ids = append(ids, n.GetRecord().GetId())
		}
	}
	if err == nil && ids == nil {
		err = &exit.Failure{Code: exit.NotFound, Text: "no node matches these labels",
			Hint: "run `get nodes -o wide` to see the labels of each node"}
	}
	return ids, err
}

// noteCommand takes the text as the last argument, after one or more nodes.
func (a *app) noteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "note NODE... TEXT",
		Short: "set or clear the note on a node",
		Long: "Sets the note that `get nodes` and `describe node` show for a node. A new note replaces the old\n" +
			"one; an empty text clears the note. Notes do not affect scheduling and survive restarts.",
		Example: "  synapse-cli note n17 \"loud fan, ticket 12\"\n  synapse-cli note n17 \"\"",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exit.Hint("run `"+a.name+" note NODE \"loud fan, ticket 12\"`", "NODE or TEXT is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			last := len(args) - 1
			ch := &change{verb: messages.NodeVerb_NODE_VERB_NOTE, done: "has a new note", reason: args[last]}
			if ch.reason == "" {
				ch.done = "has no note"
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.toNodes(ctx, c, args[:last], ch, 0) })
		},
		ValidArgsFunction: a.completeNodes,
	}
}

// toNodes changes each node, and continues after a failure.
func (a *app) toNodes(ctx context.Context, c *client.Client, args []string, ch *change, deadlineMs int64) error {
	f := exit.Failures{Tell: a.tell}
	for _, prefix := range args {
		status, err := c.Node(ctx, prefix)
		id := status.GetRecord().GetId()
		if err == nil {
			_, err = c.ChangeNode(ctx, &messages.ChangeNode{Node: id, Verb: ch.verb, Reason: ch.reason, DeadlineMs: deadlineMs,
				AtUnixMs: ch.atUnixMs})
		}
		if err == nil {
			err = a.data("Node %s %s", id, a.local(ch.outcome(a.style.NowMs)))
		}
		f.Note(err)
	}
	return f.First
}

// outcome returns the text after success.
func (ch *change) outcome(nowMs int64) string {
	if ch.atUnixMs > nowMs {
		return "becomes unschedulable at " + jobfile.FormatMoment(ch.atUnixMs)
	}
	return ch.done
}

func (a *app) cordonCommand() *cobra.Command {
	return a.nodesCommand("cordon", "mark nodes unschedulable; running tasks continue",
		"  synapse-cli cordon n17 --reason \"fan broken\"",
		&change{verb: messages.NodeVerb_NODE_VERB_CORDON, done: "cordoned", mustSay: true})
}

func (a *app) uncordonCommand() *cobra.Command {
	return a.nodesCommand("uncordon", "mark nodes schedulable again, and cancel a current or planned drain",
		"  synapse-cli uncordon n17",
		&change{verb: messages.NodeVerb_NODE_VERB_UNCORDON, done: "schedulable again"})
}

func (a *app) drainCommand() *cobra.Command {
	ch := &change{verb: messages.NodeVerb_NODE_VERB_DRAIN, done: "draining", mustSay: true}
	c := a.nodesCommand("drain", "drain nodes: no job starts there, and running gangs move to other nodes at the "+
		"deadline",
		"  synapse-cli drain n17 --reason \"new firmware\" --deadline 2h\n"+
			"  synapse-cli drain n6 --reason \"new firmware\" --at 08:00    "+
			"# before 08:00, a job starts there only if it ends in time", ch)
	c.Flags().StringVar(&ch.deadline, "deadline", "",
		"maximum time that running gangs may continue, such as 2h (default: no maximum)")
	c.Flags().Var(timeOfDay{&ch.atUnixMs}, "at",
		"start time of the drain, such as 08:00 (today or tomorrow), 2026-11-24T08:00 or now+2h; before it, a job "+
			"starts there only if it certainly ends in time")
	return c
}

func (a *app) removeCommand() *cobra.Command {
	ch := &change{verb: messages.NodeVerb_NODE_VERB_REMOVE, done: "removed"}
	gone := false
	c := a.nodesCommand("remove", "remove nodes from the cluster for good",
		"  synapse-cli remove n17 --gone --reason \"sold\"", ch)
	c.Long = "Removes nodes that will not return. The flag --gone confirms that no process is left on the nodes.\n" +
		"The scheduler then treats all unconfirmed allocations on these nodes as ended, and restarts the\n" +
		"gangs on other nodes."
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return err
		}
		if !gone {
			return exit.Hint("add --gone if nothing runs on the node any more; otherwise `drain` it first",
				"--gone is missing")
		}
		return nil
	}
	c.Flags().BoolVar(&gone, "gone", false, "confirm that no process is left on the node")
	return c
}
