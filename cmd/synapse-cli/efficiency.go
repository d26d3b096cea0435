package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file owns `efficiency`: where the GPU time of the cluster went.

func (a *app) efficiencyCommand() *cobra.Command {
	by, days := "class", 0
	c := &cobra.Command{
		Use:   "efficiency",
		Short: "show where the GPU time of the cluster went",
		Long: "Shows where the GPU time of the cluster went: each GPU is in exactly one class at every moment, from the\n" +
			"moment at which its machine joins until it is removed, so that the classes sum to what there was.\n\n" +
			"  productive     a gang past its start barrier has it\n" +
			"  starting       reserved, or its gang is not past the barrier yet\n" +
			"  stopping       its gang has ended, and evidence is missing that nothing of it runs\n" +
			"  lost           it was productive, and its gang then ended by a cause that loses what it did;\n" +
			"                 a success, a cancel and a time limit lose nothing\n" +
			"  kept           free, and kept for a promise\n" +
			"  idle wanted    free, and a job waits that could use its type: none that is held, or that a limit stops\n" +
			"  idle unwanted  free, and no such job waits\n" +
			"  broken         its device or machine is out of service by a fault\n" +
			"  closed         free, and people closed its machine\n\n" +
			"Days are in UTC. The cluster's are kept for 400 days, those of owners and queues for 31: the first 100 names\n" +
			"of a day are told apart, the others are the row *, and what nobody has is the row without a name.",
		Example: "  synapse-cli efficiency --days 7\n  synapse-cli efficiency --by queue -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			kind, known := efficiencyKinds[by]
			if !known {
				return exit.Hint("use "+strings.Join(show.EfficiencyKeys, ", "), "--by %s is not known", by)
			}
			if days < 0 {
				return exit.Usage("--days %d: must not be negative", days)
			}
			if !slices.Contains(show.EfficiencyFormats, a.style.Format) {
				return exit.Usage("-o %s is not known: use %s", a.style.Format, strings.Join(show.EfficiencyFormats[1:], ", "))
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				reply, err := c.GetEfficiency(ctx, &messages.GetEfficiency{Kind: kind, Days: int32(min(days, 10_000))})
				if err != nil {
					return err
				}
				return show.Efficiency(a.out, a.style, by, reply)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&by, "by", by, "rows: "+strings.Join(show.EfficiencyKeys, ", "))
	f.IntVar(&days, "days", days, "of the newest so many days, today among them; 0: of all")
	f.StringVarP(&a.style.Format, "output", "o", "", "how to show it: "+strings.Join(show.EfficiencyFormats[1:], ", "))
	f.BoolVar(&a.style.NoHeaders, "no-headers", false, "leave the headers out")
	f.BoolVar(&a.style.Parsable, "parsable", false, "fields between |, nothing cut, for programs")
	a.completeWords(c, "by", show.EfficiencyKeys)
	a.completeWords(c, "output", show.EfficiencyFormats[1:])
	return c
}

// efficiencyKinds are what to ask for, by the value of --by.
var efficiencyKinds = map[string]messages.GpuTimeKind{
	"class": messages.GpuTimeKind_GPU_TIME_KIND_CLUSTER, "day": messages.GpuTimeKind_GPU_TIME_KIND_CLUSTER,
	"owner": messages.GpuTimeKind_GPU_TIME_KIND_OWNER, "queue": messages.GpuTimeKind_GPU_TIME_KIND_QUEUE,
}
