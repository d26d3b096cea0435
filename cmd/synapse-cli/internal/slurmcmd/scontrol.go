package slurmcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `scontrol`: the details of a job, node or partition, and changes.

func (a *CLI) scontrol(words []string) error {
	f := slurmFlags("scontrol")
	f.BoolP("oneliner", "o", false, "")
	f.CountP("details", "d", "") // all details are always shown
	object := false
	jsonFlag(f, &object)
	if err := a.parse(f, words); err != nil {
		return err
	}
	words = f.Args()
	if len(words) == 0 {
		return exit.Usage("command is missing")
	}
	oneLine, _ := f.GetBool("oneliner")
	verb, rest := strings.ToLower(words[0]), words[1:]
	jobs := func(do func(context.Context, *client.Client, *messages.JobStatus) error) error {
		if len(rest) == 0 {
			return exit.Usage("job is missing")
		}
		return a.With(func(ctx context.Context, c *client.Client) error {
			return a.eachJob(ctx, c, rest, func(j *messages.JobStatus) error { return do(ctx, c, j) })
		})
	}
	switch verb {
	case "show":
		if object {
			return a.scontrolJSON(rest)
		}
		return a.scontrolShow(rest, oneLine)
	case "hold", "uhold":
		return jobs(func(ctx context.Context, c *client.Client, j *messages.JobStatus) error {
			_, err := c.Hold(ctx, &messages.Hold{Job: j.GetRecord().GetId()})
			return err
		})
	case "release":
		return jobs(func(ctx context.Context, c *client.Client, j *messages.JobStatus) error {
			_, err := c.Hold(ctx, &messages.Hold{Job: j.GetRecord().GetId(), Release: true})
			return err
		})
	case "requeue", "requeuehold":
		return jobs(func(ctx context.Context, c *client.Client, j *messages.JobStatus) (err error) {
			if j.GetCounts() != nil {
				_, err = c.RequeueAll(ctx, j, "scontrol", verb == "requeuehold")
			} else {
				_, err = c.RequeueSeen(ctx, j, "scontrol", verb == "requeuehold")
			}
			return err
		})
	case "update":
		return a.scontrolUpdate(rest)
	case "ping":
		return a.With(func(ctx context.Context, c *client.Client) error {
			if _, err := a.me(ctx, c); err != nil {
				return err
			}
			return a.Data("Slurmctld(primary) at %s is UP", c.Server())
		})
	}
	return exit.Hint("see docs/reference/slurm.md for supported commands", "%s is not supported", words[0])
}

// entity returns the kind of an object of `show` and its name: `job 7` or `job=7`.
func entity(words []string) (kind, name string) {
	kind = strings.ToLower(words[0])
	if key, value, has := strings.Cut(words[0], "="); has {
		kind, name = strings.ToLower(key), value
	} else if len(words) > 1 {
		name = words[1]
	}
	kind = strings.TrimSuffix(kind, "s")
	for _, whole := range []string{"partition", "reservation", "license"} {
		if len(kind) > 2 && strings.HasPrefix(whole, kind) {
			kind = whole
		}
	}
	return kind, name
}

func (a *CLI) scontrolShow(words []string, oneLine bool) error {
	if len(words) == 0 {
		return exit.Usage("show needs an entity")
	}
	show := func(text string) error {
		if oneLine {
			text = strings.Join(strings.Fields(text), " ")
		}
		return a.Page(text)
	}
	kind, name := entity(words)
	switch kind {
	case "hostname":
		all, err := slurm.Hostnames(cmp.Or(name, a.Variable("SLURM_JOB_NODELIST")))
		if err != nil {
			return err
		}
		return a.Page(strings.Join(all, "\n"))
	case "hostlist", "hostlistsorted":
		all, err := slurm.Hostnames(name)
		if err != nil {
			return err
		}
		return a.Data("%s", slurm.Hostlist(all))
	case "job", "jobid":
		return a.With(func(ctx context.Context, c *client.Client) error {
			if name != "" {
				return a.eachJob(ctx, c, []string{name}, func(j *messages.JobStatus) error {
					return show(slurm.Of(j, time.Now().UnixMilli()).Show())
				})
			}
			all, err := a.entries(ctx, c, &choice{Choice: query.Choice{Choice: command.Choice{StateList: "all"}}})
			return showAll(show, all, err)
		})
	case "config":
		return a.With(func(_ context.Context, c *client.Client) error { return a.config(c) })
	case "reservation":
		return a.Page("No reservations in the system")
	case "license":
		return a.Page("No licenses configured in Slurm.")
	case "partition", "partitionname":
		return a.With(func(ctx context.Context, c *client.Client) error {
			all, err := a.partitions(ctx, c, name)
			return showAll(show, all, err)
		})
	case "node", "nodename":
		return a.With(func(ctx context.Context, c *client.Client) error {
			all, err := a.machinesNamed(ctx, c, name)
			return showAll(show, all, err)
		})
	}
	return exit.Hint("use job, node, partition, config, hostnames or hostlist", "show %s is not supported",
		words[0])
}

// showAll prints all objects, or returns the error of reading them.
func showAll[T interface{ Show() string }](show func(string) error, all []T, err error) error {
	for _, one := range all {
		if err == nil {
			err = show(one.Show())
		}
	}
	return err
}

// machinesNamed returns the nodes of a list in Slurm's notation; empty: all nodes that are not removed.
func (a *CLI) machinesNamed(ctx context.Context, c *client.Client, list string) (all []*slurm.Machine, err error) {
	var wanted []string
	if list != "" {
		if wanted, err = slurm.Hostnames(list); err != nil {
			return nil, err
		}
	}
	all, missing, err := query.Machines(ctx, c, wanted)
	if missing != "" {
		return nil, &exit.Failure{Code: exit.Failed, Text: "Node " + missing + " not found"}
	}
	return all, err
}

// scontrolUpdate changes a job or a node with arguments KEY=VALUE.
func (a *CLI) scontrolUpdate(words []string) error {
	set := map[string]string{}
	var keys []string
	for _, word := range words {
		key, value, has := strings.Cut(word, "=")
		if !has {
			return exit.Usage("%q: write KEY=VALUE", word)
		}
		key = strings.ToLower(key)
		keys = append(keys, key)
		set[key] = value
	}
	job := cmp.Or(set["jobid"], set["job"], set["jobname"])
	node := cmp.Or(set["nodename"], set["node"])
	switch {
	case job != "":
		return a.updateJob(job, set, keys)
	case node != "":
		return a.updateNode(node, set, keys)
	}
	return exit.Hint("use JobId= or NodeName=", "entity to update is missing")
}

func (a *CLI) updateJob(job string, set map[string]string, keys []string) error {
	change := &messages.Update{Reason: "scontrol"}
	for _, key := range keys {
		value := set[key]
		switch key {
		case "jobid", "job", "jobname":
		case "timelimit":
			ms, err := sbatch.ParseTime(value)
			if err != nil {
				return exit.Usage("TimeLimit=%s: not a duration", value)
			}
			change.SetTimeLimit, change.TimeLimitMs = true, ms
		case "priority":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return exit.Usage("Priority=%s: not a number", value)
			}
			change.SetPriority, change.Priority = true, int32(n)
		case "starttime", "eligibletime":
			ms, err := jobfile.ParseMoment(value)
			if err != nil {
				return exit.Usage("StartTime=%s: %s", value, err)
			}
			change.SetBegin, change.BeginUnixMs = true, ms
		case "deadline":
			ms, err := jobfile.ParseMoment(value)
			if err != nil {
				return exit.Usage("Deadline=%s: %s", value, err)
			}
			change.SetDeadline, change.DeadlineUnixMs = true, ms
		case "arraytaskthrottle":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 0 {
				return exit.Usage("ArrayTaskThrottle=%s: not a number", value)
			}
			change.SetArrayMost, change.ArrayMost = true, int32(n)
		default:
			return exit.Hint("use TimeLimit, Priority, StartTime, Deadline or ArrayTaskThrottle", "%s: cannot be changed",
				key)
		}
	}
	if !change.SetTimeLimit && !change.SetPriority && !change.SetBegin && !change.SetDeadline &&
		!change.SetArrayMost {
		return exit.Usage("no change is requested")
	}
	return a.With(func(ctx context.Context, c *client.Client) error {
		return a.eachJob(ctx, c, []string{job}, func(j *messages.JobStatus) error {
			change.Job = j.GetRecord().GetId()
			_, err := c.Update(ctx, change)
			return err
		})
	})
}

// nodeVerbs maps Slurm's states that an operator sets to changes of a node.
var nodeVerbs = map[string]messages.NodeVerb{
	"drain": messages.NodeVerb_NODE_VERB_CORDON, "resume": messages.NodeVerb_NODE_VERB_UNCORDON,
	"undrain": messages.NodeVerb_NODE_VERB_UNCORDON,
}

// updateNode closes or opens nodes. Slurm's drain lets running jobs continue, which is a cordon here.
func (a *CLI) updateNode(list string, set map[string]string, keys []string) error {
	for _, key := range keys {
		if !slices.Contains([]string{"nodename", "node", "state", "reason"}, key) {
			return exit.Hint("use State or Reason", "%s: cannot be changed", key)
		}
	}
	verb, known := nodeVerbs[strings.ToLower(set["state"])]
	if !known {
		return exit.Hint("use DRAIN or RESUME", "State=%s is not supported", set["state"])
	}
	if verb == messages.NodeVerb_NODE_VERB_CORDON && set["reason"] == "" {
		return exit.Usage("You must specify a reason when DRAINING a node")
	}
	return a.With(func(ctx context.Context, c *client.Client) error {
		all, err := a.machinesNamed(ctx, c, list)
		fails := exit.Failures{Tell: a.Tell}
		fails.Note(err)
		for _, m := range all {
			_, err := c.ChangeNode(ctx,
				&messages.ChangeNode{Node: m.Name, Verb: verb, Reason: cmp.Or(set["reason"], "scontrol")})
			fails.Note(err)
		}
		return fails.First
	})
}

// partitions returns the queues for jobs, each with all its nodes. name selects one; empty: all.
func (a *CLI) partitions(ctx context.Context, c *client.Client, name string) (all []*slurm.Partition, err error) {
	nodes, err := a.machinesNamed(ctx, c, "")
	if err != nil {
		return nil, err
	}
	all, err = query.Partitions(ctx, c, nodes, name, query.WholePartition)
	if err == nil && len(all) == 0 && name != "" {
		err = exit.Usage("Partition %s not found", name)
	}
	return all, err
}

// config prints the settings that clients read from Slurm's configuration.
func (a *CLI) config(c *client.Client) error {
	cluster, _, _ := c.Root()
	text := "Configuration data as of " + time.Now().Format("2006-01-02T15:04:05")
	for _, setting := range [][2]string{
		{"ClusterName", cmp.Or(cluster, "synapse")}, {"DefMemPerNode", "UNLIMITED"},
		{"MaxArraySize", strconv.Itoa(messages.MaxIndex + 1)}, {"MinJobAge", "300 sec"}, {"MpiDefault", "pmi2"},
		{"SelectType", "select/cons_tres"}, {"SLURM_VERSION", slurm.Version}, {"SlurmctldHost[0]", c.Server()},
	} {
		text += fmt.Sprintf("\n%-23s = %s", setting[0], setting[1])
	}
	return a.Page(text)
}
