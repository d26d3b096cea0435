package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the metrics of a node for its operators: which attempt holds which device, and whether the node
// belongs to a cluster. It decides nothing.

// CountAll asks a Node for a *Census. Metrics of the node agent → Node.
type CountAll struct{}

// Census holds the present counts of a node. A Census does not change after the Node has sent it.
type Census struct {
	Ready, Member bool
	Epoch         uint64
	Trouble       string // why it takes no new work; empty: it does
	GPUs          []*messages.Gpu
	Failed        []topology.GPUID
	Held          []HeldGPU
	Allocations   []SliceCount
	Tasks         int // started and not ended
}

// HeldGPU holds the share of one device that one attempt has, in thousandths.
type HeldGPU struct {
	GPU        string
	Milli      int64
	Job, Owner string
	Token      topology.Token
}

// SliceCount is the number of allocations in one state.
type SliceCount struct {
	State topology.AllocationState
	Count int
}

// TookTask is the prefix of the distributions of preparation and start times of containers.
const TookTask = "task."

func (n *Node) onCountAll(ctx actor.Context) {
	c := &Census{
		Ready: n.Ready(), Member: n.Member(), Epoch: n.epoch, Trouble: n.trouble(), GPUs: n.p.Announcement.GetGpus(),
		Failed: n.ledger.WithdrawnGPUs(),
	}
	for _, page := range n.ledger.Allocations() {
		s := n.slices[page.Token]
		c.count(page.State)
		if page.State == topology.AllocationEnded {
			continue
		}
		for i := range s.ranks {
			if r := &s.ranks[i]; r.started && r.exit == nil {
				c.Tasks++
			}
		}
		for _, g := range s.grants {
			for _, share := range g.Gpus {
				c.Held = append(c.Held, HeldGPU{
					GPU: share.GpuId, Milli: share.Milli, Job: string(page.Job), Owner: s.owner, Token: page.Token,
				})
			}
		}
	}
	if ctx.Sender() != nil {
		ctx.Respond(c)
	}
}

func (c *Census) count(state topology.AllocationState) {
	for i := range c.Allocations {
		if c.Allocations[i].State == state {
			c.Allocations[i].Count++
			return
		}
	}
	c.Allocations = append(c.Allocations, SliceCount{state, 1})
}

// become changes the state of the Task, and measures how long the container took to be prepared or started.
func (t *Task) become(event string, to taskState) {
	from, now := t.states.At(), t.p.Clock.Now()
	t.states.Become(event, to)
	if from == taskPreparing && to == taskPrepared || from == taskStarting && to == taskRunning {
		t.p.Host.Took(TookTask+string(from), now.Since(t.since))
	}
	t.since = now
}
