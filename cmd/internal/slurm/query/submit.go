package query

import (
	"context"
	"strconv"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file completes a job with data from the cluster.

// Spec returns the requested job, completed with data from the cluster.
func Spec(ctx context.Context, c *client.Client, b *slurm.Batch, from slurm.Submitter,
	job func(slurm.Submitter) (*messages.JobSpec, error)) (*messages.JobSpec, error) {
	if wants, gpuType := b.WantsWhole(); wants {
		var err error
		if from.Whole, err = wholeMachine(ctx, c, gpuType); err != nil {
			return nil, err
		}
	}
	spec, err := job(from)
	if err != nil {
		return nil, err
	}
	if b.Singleton {
		if err := alone(ctx, c, spec); err != nil {
			return nil, err
		}
	}
	return spec, c.Precede(ctx, spec, Find(c))
}

// alone makes a job wait for all unfinished jobs with the same name and owner. In Slurm it would also wait for
// later jobs; here it waits only for those that exist at the submit.
func alone(ctx context.Context, c *client.Client, spec *messages.JobSpec) error {
	who, err := c.WhoAmI(ctx, &api.WhoAmI{})
	if err != nil {
		return err
	}
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Owner: who.GetName(), Name: spec.Called()})
	for _, j := range jobs {
		if !j.GetRecord().GetState().Terminal() {
			spec.After = append(spec.After, &messages.After{Job: j.GetRecord().GetId(), End: messages.AfterEnd_AFTER_END_ANY})
		}
	}
	return err
}

// wholeMachine returns the resources of a complete node. All possible nodes must be equal, because the nodes of the
// job are not known yet.
func wholeMachine(ctx context.Context, c *client.Client, gpuType string) (*sbatch.Amount, error) {
	all, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var whole *messages.Resources
	for _, n := range all {
		m, total := slurm.MachineOf(n), n.GetRecord().GetAnnouncement().GetTotal()
		switch {
		case n.GetRecord().GetRemoved() != nil || gpuType != "" && !strings.EqualFold(m.GPUType, gpuType):
		case whole == nil:
			whole = total
		case whole.GetMilliCpu() != total.GetMilliCpu() || whole.GetMemoryBytes() != total.GetMemoryBytes():
			return nil, &slurm.Refusal{Option: "--exclusive, --mem=0",
				Text: "nodes differ, and a job needs fixed amounts",
				Hint: "give amounts, or the GPU type: " + strconv.Itoa(len(all)) + " nodes were compared"}
		}
	}
	if whole == nil {
		return nil, &slurm.Refusal{Option: "--exclusive, --mem=0", Text: "no node matches"}
	}
	return &sbatch.Amount{MilliCPU: whole.GetMilliCpu(), MemoryBytes: whole.GetMemoryBytes()}, nil
}
