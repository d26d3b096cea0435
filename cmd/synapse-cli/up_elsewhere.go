//go:build !linux

package main

import (
	"runtime"

	"github.com/spf13/cobra"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// This file implements `up` on other systems than Linux, which cannot run jobs: it only returns an error. Cgroups,
// namespaces and the agent require Linux.

func (a *app) upCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "run a local cluster (requires Linux)",
		Long: "Runs a scheduler and node processes on a Linux host. Run the command on another host, in a VM or in\n" +
			"WSL 2. On this host, pass the address of that scheduler to the other commands with --server.",
		DisableFlagParsing: true, // the answer is the same for all flags
		RunE: func(*cobra.Command, []string) error {
			return &exit.Failure{Code: exit.Failed, Text: "`up` requires Linux; jobs cannot run on " + runtime.GOOS,
				Hint: "run it on a Linux host, a virtual machine or WSL 2, and pass that address here with --server"}
		},
	}
}
