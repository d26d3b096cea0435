package slurm

import (
	"cmp"
	"fmt"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file converts options into a job. A node of Slurm's allocation becomes a task, alone on its node. The script
// runs in the first task, and its steps run in all. Only if --ntasks is set without --nodes, a Slurm task becomes a
// task, on any nodes.

// Submitter describes the environment of a submit.
type Submitter = sbatch.Submitter

// WantsWhole reports whether complete nodes are requested without their amounts, and of which GPU type.
func (b *Batch) WantsWhole() (wants bool, gpuType string) {
	return b.Exclusive || b.WholeMemory, b.GPUType
}

// Job returns the job that sbatch submits.
func (b *Batch) Job(text []byte, args []string, from Submitter) (*messages.JobSpec, error) {
	b.outsideFiles(from)
	files, err := b.Files(b.array != nil)
	if err != nil {
		return nil, err
	}
	return b.job(text, files, args, from)
}

// job returns a job that runs a script on the first node, after the setup of its files.
func (b *Batch) job(text []byte, files string, args []string, from Submitter) (*messages.JobSpec, error) {
	s, err := b.Shape()
	if err = cmp.Or(err, b.corresponding()); err != nil {
		return nil, err
	}
	amount, err := b.Amount(s, from.Whole)
	if err != nil {
		return nil, err
	}
	if n := len(b.nodelist); n > 0 && int64(n) != s.Gang {
		return nil, &Refusal{Option: "--nodelist", Text: fmt.Sprintf("lists %d nodes, but the job has %d", n, s.Gang),
			Hint: "list as many nodes as --nodes"}
	}
	if err := b.checkContainer(); err != nil {
		return nil, err
	}
	var in *sbatch.Container
	if b.container.image != "" {
		in = &sbatch.Container{Image: b.container.image,
			Variables: func(set map[string]string) { b.ownInContainer(set, from.Env) }}
	}
	job, err := b.Plain.Job(b.program.name, s, amount, text, files, args, from, in)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(b.program.name, job)
	if err != nil {
		return nil, err
	}
	spec.BeginUnixMs, spec.Array, spec.After, spec.NodeSelector = b.beginUnixMs, b.array, b.after, b.selector
	spec.DeadlineUnixMs = b.deadlineUnixMs
	spec.Nodes, spec.Exclude, spec.Warn, spec.Topology = b.nodelist, b.exclude, b.warn, b.topology
	if err := b.contain(spec, from); err != nil {
		return nil, err
	}
	return spec, jobfile.Valid(spec)
}

// specOf converts the common part of a job into a message. The server converts the JSON of synapse-submit in the same
// way: TestSubmitAlike compares both.
func specOf(program string, j *sbatch.Job) (*messages.JobSpec, error) {
	spec := &messages.JobSpec{
		Queue: j.Queue, Name: j.Name, Title: j.Title, User: j.User, GpuType: j.GPUType, SubmitDir: j.SubmitDir,
		Priority: j.Priority, PriorityZero: j.PriorityZero, TimeLimitMs: j.TimeLimitMs, Image: messages.HostImage,
		Gang: &messages.GangSpec{ReplicasMin: int32(j.Shape.Gang), ReplicasMax: int32(j.Shape.Gang),
			Apart: j.Shape.Apart},
		Each:     &messages.Resources{MilliCpu: j.Each.MilliCPU, MilliGpu: j.Each.MilliGPU, MemoryBytes: j.Each.MemoryBytes},
		Launcher: messages.Launch_LAUNCH_SLURM,
	}
	for _, l := range j.Labels {
		spec.Labels = append(spec.Labels, &messages.Label{Key: l[0], Value: l[1]})
	}
	for _, v := range j.Env {
		spec.Env = append(spec.Env, &messages.EnvVar{Name: v[0], Value: v[1]})
	}
	if j.Never {
		spec.Restart = &messages.RestartSpec{Never: true}
	}
	var err error
	if spec.Script, err = messages.NewScript(program, j.Script); err != nil {
		return nil, &Refusal{Option: "the script", Text: err.Error()}
	}
	spec.Script.Args = j.Args
	return spec, nil
}
