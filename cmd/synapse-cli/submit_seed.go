package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file owns the flags of the original synctl.

// seedFlags makes the flags of the original synctl submit a job. Their amounts are totals, and memory is in MB.
func (a *app) seedFlags(root *cobra.Command) {
	var cpu, gpu, mem int64
	var image string
	f := root.Flags()
	f.Int64Var(&cpu, "cpu", 1, "number of CPU cores")
	f.Int64Var(&gpu, "gpu", 0, "number of GPUs")
	f.Int64Var(&mem, "mem", 128, "memory in MB")
	f.StringVar(&image, "image", "ubuntu:latest", "container image, or a directory on the nodes")
	root.RunE = func(c *cobra.Command, _ []string) error {
		any := false
		f.Visit(func(flag *pflag.Flag) { any = any || root.PersistentFlags().Lookup(flag.Name) == nil })
		if !any {
			return c.Help()
		}
		if cpu < 0 || gpu < 0 || mem < 0 || mem > messages.MaxMemoryBytes>>20 || cpu > messages.MaxMilliCPU/1000 ||
			gpu > messages.MaxMilliGPU {
			return exit.Usage("--cpu, --gpu and --mem: invalid amount")
		}
		spec := &messages.JobSpec{
			Name: "job-" + time.Now().Format("150405"), Image: image,
			Gang: &messages.GangSpec{Total: &messages.Resources{MilliCpu: cpu * 1000, MilliGpu: gpu * 1000,
				MemoryBytes: mem << 20}, Split: messages.Split_SPLIT_ANY},
		}
		if image == "host" {
			spec.Command = []string{"/bin/sh"} // the host has no entrypoint; a shell without input exits at once with 0
		}
		if err := spec.Validate(); err != nil {
			return exit.Usage("job is not valid: %s", err)
		}
		return a.with(func(ctx context.Context, cl *client.Client) error {
			return a.send(ctx, cl, &submission{seed: true}, spec)
		})
	}
}
