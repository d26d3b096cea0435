package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `image pull`, which loads an image onto nodes before jobs need it. Each node gets a small job
// with this image. The job runs a program that every container has, so the image needs no program.

// pulling holds the options of `image pull`.
type pulling struct {
	labels        []string
	user, timeout string
}

// inEveryContainer is a program that Synapse mounts into each container.
const inEveryContainer = "/scratch/.synapse/synapse-exec"

func (a *app) imageCommand() *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "load images onto nodes", Args: cobra.NoArgs,
		Long: "Loads images onto nodes before jobs need them.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	p := &pulling{}
	pull := &cobra.Command{
		Use:   "pull IMAGE [-l key=value]...",
		Short: "load an image onto nodes",
		Long: "Loads an image onto all nodes, or onto the nodes with the labels of -l. The command submits a small\n" +
			"job with this image for each node, and waits until the jobs have ended. The image then stays on\n" +
			"the node until the node needs the disk space. Nodes that are not up are skipped. If an image cannot\n" +
			"be loaded onto a node, the command prints the reason and exits with 1.",
		Example: "  synapse-cli image pull -l pool=a nvcr.io/nvidia/pytorch:25.01-py3",
		Args:    named("image", "image pull IMAGE", 1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.pull(p, args[0]) },
	}
	labelFlag(pull, &p.labels, "nodes")
	pull.Flags().StringVar(&p.user, "user", "", "`account` that may read an image file: me, or the name of an account")
	pull.Flags().StringVar(&p.timeout, "timeout", "1h", "maximum `time` to load the image onto a node")
	c.AddCommand(pull)
	return c
}

// pull loads an image onto the selected nodes.
func (a *app) pull(p *pulling, image string) error {
	timeout, err := jobfile.ParseDuration(p.timeout)
	if err != nil {
		return flagProblem("timeout", err)
	}
	wanted, failed := parseSelector(p.labels)
	switch {
	case failed != nil:
		return failed
	case image == messages.HostImage:
		return exit.Usage("host is the root file system of the nodes and is not loaded")
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		nodes, err := a.loadable(ctx, c, wanted)
		if err != nil {
			return err
		}
		f := exit.Failures{Tell: a.tell}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		jobs := map[string]string{}
		for _, node := range nodes {
			spec := pullJob(image, node, p.user, timeout)
			reply, err := c.Send(ctx, &messages.Submit{RequestId: "cli-" + rand.Text(), Spec: spec})
			f.Note(letWait(err))
			jobs[node] = reply.GetJob()
		}
		for _, node := range nodes {
			if id := jobs[node]; id != "" {
				f.Note(a.pulled(ctx, c, node, id))
			}
		}
		return f.First
	})
}

// pullJob returns the job that loads an image onto a node.
func pullJob(image, node, user string, timeoutMs int64) *messages.JobSpec {
	return &messages.JobSpec{
		Name: "image-pull", Image: image, User: user, Nodes: []string{node}, PrepareTimeoutMs: timeoutMs,
		TimeLimitMs: 60_000,
		Command:     []string{inEveryContainer, "--version"}, Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
		Each: &messages.Resources{MilliCpu: 100, MemoryBytes: 64 << 20},
	}
}

// loadable returns the selected nodes that are up, and reports the others.
func (a *app) loadable(ctx context.Context, c *client.Client, wanted selector) (nodes []string, err error) {
	all, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		id := n.GetRecord().GetId()
		switch state := messages.ConditionOf(n); {
		case !wanted.matches(n.GetRecord().GetAnnouncement().GetLabels()):
		case state != "up":
			a.say("%s: skipped, because it is %s", id, state)
		default:
			nodes = append(nodes, id)
		}
	}
	if len(nodes) == 0 {
		return nil, &exit.Failure{Code: exit.NotFound, Text: "no node is up and has these labels",
			Hint: "run `" + a.name + " get nodes -o wide` to see labels and states"}
	}
	return nodes, nil
}

// pulled waits until an image is on a node, and prints the result.
func (a *app) pulled(ctx context.Context, c *client.Client, node, id string) error {
	j, err := c.Wait(ctx, id, a.lost, nil)
	switch {
	case errors.Is(err, context.Canceled):
		a.say("job %s continues to load the image onto %s; `%s cancel %s` stops it", id, node, a.name, id)
		return err
	case err != nil:
		return err
	case j.GetRecord().GetState() != messages.JobState_JOB_STATE_SUCCEEDED:
		return &exit.Failure{Code: exit.Failed, Text: node + ": " + howItEnded(j)}
	}
	return a.data("%s: the image is loaded", node)
}
