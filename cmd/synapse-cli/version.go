package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
)

// This file owns `version` and the manual's pages.

// version is set by the linker in a release.
var version = ""

func versionOf() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func (a *app) versionCommand() *cobra.Command {
	only := false
	c := &cobra.Command{
		Use:   "version",
		Short: "show the version of this program and of the scheduler",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := a.data("%s %s (%s, %s/%s)", a.name, versionOf(), runtime.Version(), runtime.GOOS, runtime.GOARCH); err != nil || only {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				reply, err := c.Cluster(ctx, &api.Cluster{})
				if errors.Is(err, context.DeadlineExceeded) {
					err = &failure{code: exitTimedOut, text: "the scheduler at " + c.Server() + " has not answered in time"}
				}
				if err != nil {
					return err
				}
				return a.data("scheduler %s at %s, cluster %s, epoch %d", reply.GetVersion(), c.Server(), reply.GetClusterId(), reply.GetEpoch())
			})
		},
	}
	c.Flags().BoolVar(&only, "client", false, "of this program only")
	return c
}

// docsCommand writes the manual. Packagers run it; nobody else has to see it.
func (a *app) docsCommand() *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "write the manual", Hidden: true, Args: cobra.NoArgs}
	c.AddCommand(&cobra.Command{
		Use: "man DIR", Short: "write a page for each command into a directory", Args: named("directory", "DIR", 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			// A fixed date, so that the same version gives the same pages.
			date := time.Unix(0, 0).UTC()
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Synapse " + versionOf(), Manual: "Synapse", Date: &date}, args[0])
		},
	})
	return c
}
