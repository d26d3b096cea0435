package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/manual"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `version` and the man pages.

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

// versions is the object of -o json.
type versions struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Client     programVersion    `json:"client"`
	Scheduler  *schedulerVersion `json:"scheduler,omitempty"`
}

type programVersion struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p programVersion) String() string {
	return p.Program + " " + p.Version + " (" + p.Go + ", " + p.Platform + ")"
}

type schedulerVersion struct {
	Version   string `json:"version"`
	Address   string `json:"address"`
	ClusterID string `json:"clusterId"`
	Epoch     uint64 `json:"epoch"`
}

func (a *app) versionCommand() *cobra.Command {
	only := false
	c := a.objectFlag(&cobra.Command{
		Use:   "version",
		Short: "show the version of this program and of the scheduler",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			own := versions{"synapse/v1", "Version", programVersion{a.name, versionOf(), runtime.Version(), runtime.GOOS + "/" +
				runtime.GOARCH}, nil}
			if a.style.Format == "" {
				if err := a.data("%s", own.Client); err != nil || only {
					return err
				}
			} else if only {
				return show.Object(a.out, a.style.Format, own)
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				reply, err := c.Cluster(ctx, &api.Cluster{})
				if errors.Is(err, context.DeadlineExceeded) {
					err = &exit.Failure{Code: exit.TimedOut,
						Text: "scheduler at " + c.Server() + " did not answer in time"}
				}
				if err != nil {
					return err
				}
				if a.style.Format != "" {
					own.Scheduler = &schedulerVersion{reply.GetVersion(), c.Server(), reply.GetClusterId(), reply.GetEpoch()}
					return show.Object(a.out, a.style.Format, own)
				}
				return a.data("scheduler %s at %s, cluster %s, epoch %d", reply.GetVersion(), c.Server(), reply.GetClusterId(),
					reply.GetEpoch())
			})
		},
	})
	c.Flags().BoolVar(&only, "client", false, "show only the version of this program")
	return c
}

// docsCommand writes the man pages and reference pages. It is hidden, because only packagers need it.
func (a *app) docsCommand() *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "write the manual", Hidden: true, Args: cobra.NoArgs}
	c.AddCommand(&cobra.Command{
		Use: "man DIR", Short: "write a man page for each command to a directory", Args: named("directory", "DIR", 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return manual.WriteMan(c.Root(), args[0], "Synapse "+versionOf())
		},
	})
	return c
}
