package machine

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/topology"
)

// censusNode is a fake Node that answers with one census.
type censusNode struct{ census *worker.Census }

func (c censusNode) Receive(ctx actor.Context) {
	if _, asked := ctx.Message().(worker.CountAll); asked {
		ctx.Respond(c.census)
	}
}

// TestMachine checks that each device has one series, and that a job's tasks on a device are summed.
func TestMachine(t *testing.T) {
	h := host.New(host.NewLog(t.Output(), false))
	var text strings.Builder
	scrape := func() string {
		text.Reset()
		if err := metrics.Text(metrics.Registry(Source{Host: h}), &text); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	if got := scrape(); !strings.Contains(got, "synapse_node_up 0\n") || strings.Contains(got, "synapse_node_gpu") {
		t.Errorf("before there is a Node: %s", got)
	}
	census := &worker.Census{
		Ready: true, Member: true, Epoch: 7, Tasks: 3,
		GPUs:   []*messages.Gpu{{Id: "GPU-a", Type: "h100"}, {Id: "GPU-b", Type: "h100"}},
		Failed: []topology.GPUID{"GPU-b"},
		Held: []worker.HeldGPU{
			{GPU: "GPU-a", Milli: 250, Job: "j1", Owner: "ada"}, {GPU: "GPU-a", Milli: 250, Job: "j1", Owner: "ada"},
			{GPU: "GPU-a", Milli: 500, Job: "j2", Owner: "bob"},
		},
		Allocations: []worker.SliceCount{{State: topology.AllocationStarted, Count: 2}},
	}
	name := strings.TrimPrefix(actors.NodePath, "/")
	props := actor.PropsFromProducer(func() actor.Actor { return censusNode{census} }, actor.WithMailbox(link.Mailbox))
	if _, err := h.System().Root.SpawnNamed(props, name); err != nil {
		t.Fatal(err)
	}
	got := scrape()
	for _, want := range []string{
		"synapse_node_up 1\n", "synapse_node_member 1\n", "synapse_node_epoch 7\n", "synapse_node_unavailable 0\n",
		`synapse_node_gpu{broken="false",type="h100",uuid="GPU-a"} 1`,
		`synapse_node_gpu{broken="true",type="h100",uuid="GPU-b"} 1`,
		`synapse_node_gpu_job{job="j1",owner="ada",uuid="GPU-a"} 0.5`,
		`synapse_node_gpu_job{job="j2",owner="bob",uuid="GPU-a"} 0.5`,
		`synapse_node_allocations{state="started"} 2`, "synapse_node_tasks 3\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
