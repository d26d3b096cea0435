package query

import (
	"context"
	"slices"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
)

// This file lists nodes and partitions.

// Machines returns the named nodes, or all nodes that are not removed. missing is the first name without a node; empty:
// there is none.
func Machines(ctx context.Context, c *client.Client, names []string) (all []*slurm.Machine, missing string, err error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, n := range nodes {
		if id := n.GetRecord().GetId(); n.GetRecord().GetRemoved() == nil &&
			(len(names) == 0 || slices.Contains(names, id)) {
			all = append(all, slurm.MachineOf(n))
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m *slurm.Machine) bool { return m.Name == name }) {
			return nil, name, nil
		}
	}
	return all, "", nil
}

// WholePartition is a key of Partitions that gives each queue one line.
func WholePartition(*slurm.Machine) string { return "" }

// Partitions returns the queues for jobs with their permitted nodes: one line for the nodes with the same key. A
// cluster without queues has one partition, "all". wanted is a list of names; empty: all.
func Partitions(ctx context.Context, c *client.Client, all []*slurm.Machine, wanted string,
	keyOf func(*slurm.Machine) string) (lines []*slurm.Partition, err error) {
	reply, err := c.GetQueues(ctx, &messages.GetQueues{})
	if err != nil {
		return nil, err
	}
	for _, q := range queuesOf(reply) {
		if !Listed(wanted, q.partition.Name) {
			continue
		}
		states := map[string]*slurm.Partition{}
		var own []*slurm.Partition
		for _, m := range all {
			key := keyOf(m)
			if !m.Fits(q.selector) {
				continue
			}
			if states[key] == nil {
				line := q.partition
				states[key] = &line
				own = append(own, &line)
			}
			states[key].Machines = append(states[key].Machines, m)
		}
		if len(own) == 0 {
			line := q.partition
			own = append(own, &line)
		}
		lines = append(lines, own...)
	}
	return lines, nil
}

// PartitionsOf returns the names of the partitions that contain a node.
func PartitionsOf(m *slurm.Machine, partitions []*slurm.Partition) (names []string) {
	for _, p := range partitions {
		if slices.ContainsFunc(p.Machines, func(own *slurm.Machine) bool { return own.Name == m.Name }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// queueLine is a queue for jobs, with the labels that its nodes need.
type queueLine struct {
	partition slurm.Partition
	selector  []*messages.Label
}

func queuesOf(reply *messages.GetQueuesReply) (all []queueLine) {
	queues := reply.GetQueues()
	byName, parents := map[string]*messages.QueueSpec{}, map[string]bool{}
	for _, q := range queues.GetQueues() {
		byName[q.GetName()], parents[q.GetParent()] = q, true
	}
	for _, q := range queues.GetQueues() {
		if parents[q.GetName()] {
			continue
		}
		line := queueLine{partition: slurm.Partition{Name: q.GetName(), Usual: q.GetName() == queues.GetDefault(),
			Limit: "infinite"}}
		for at := q; at != nil; at = byName[at.GetParent()] {
			line.selector = append(line.selector, at.GetSelector()...)
			if line.partition.Limit == "infinite" && at.GetMostLimitMs() > 0 {
				line.partition.Limit = slurm.Clock(at.GetMostLimitMs())
			}
		}
		all = append(all, line)
	}
	if len(all) == 0 {
		all = []queueLine{{partition: slurm.Partition{Name: "all", Usual: true, Limit: "infinite"}}}
	}
	return all
}
