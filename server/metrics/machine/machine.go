// Package machine exports the metrics of one node, which its own agent knows. It reads the Node's census.
package machine

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/topology"
)

// This file defines the families of a node. Its devices and running tasks limit the number of series.

const patience = 5 * time.Second

var (
	up = metrics.New(metrics.Gauge, "synapse_node_up",
		"1 if the agent has taken over the tasks of the node")
	member = metrics.New(metrics.Gauge, "synapse_node_member",
		"1 if a leader has accepted the node")
	epoch = metrics.New(metrics.Gauge, "synapse_node_epoch",
		"epoch of the newest leader that the node has accepted")
	trouble = metrics.New(metrics.Gauge, "synapse_node_unavailable",
		"1 if the node cannot take work; `describe node` shows the reason")
	gpus = metrics.New(metrics.Gauge, "synapse_node_gpu",
		"1 per GPU of the node; the label broken is true if the GPU "+
			"is out of service", "uuid", "type", "broken")
	held = metrics.New(metrics.Gauge, "synapse_node_gpu_job",
		"share of a GPU that a job holds; use it to join the series "+
			"of a GPU exporter with jobs", "uuid", "job", "owner")
	slices = metrics.New(metrics.Gauge, "synapse_node_allocations",
		"allocations on the node, by state", "state")
	tasks = metrics.New(metrics.Gauge, "synapse_node_tasks",
		"running tasks on the node")
)

// Source holds where the metrics come from.
type Source struct{ Host *host.Host }

// Families returns all families of this source.
func (Source) Families() []*metrics.Family {
	return []*metrics.Family{up, member, epoch, trouble, gpus, held, slices, tasks}
}

// Write writes the series.
func (s Source) Write(p metrics.Page) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	at := actor.NewPID(s.Host.System().ProcessRegistry.Address, actors.NodePath)
	got, err := s.Host.Ask(ctx, at, worker.CountAll{})
	c, ok := got.(*worker.Census)
	if err != nil || !ok {
		p.Put(up, 0)
		return
	}
	p.Put(up, truth(c.Ready))
	p.Put(member, truth(c.Member))
	p.Put(epoch, float64(c.Epoch))
	p.Put(trouble, truth(c.Trouble != ""))
	failed := map[string]bool{}
	for _, id := range c.Failed {
		failed[string(id)] = true
	}
	for _, g := range c.GPUs {
		out := "false"
		if failed[g.Id] {
			out = "true"
		}
		p.Put(gpus, 1, g.Id, g.Type, out)
	}
	writeHeld(p, c.Held)
	for _, one := range c.Allocations {
		p.Put(slices, float64(one.Count), renamed.SeriesWord(slices.Name, one.State.String()))
	}
	p.Put(tasks, float64(c.Tasks))
}

// writeHeld writes one series per device and job. Several tasks of a job may share a device.
func writeHeld(p metrics.Page, all []worker.HeldGPU) {
	type holder struct{ gpu, job, owner string }
	sums := map[holder]int64{}
	for _, h := range all {
		sums[holder{h.GPU, h.Job, h.Owner}] += h.Milli
	}
	for who, milli := range sums { //order: each series is independent
		p.Put(held, float64(milli)/topology.WholeGPU, who.gpu, who.job, who.owner)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
