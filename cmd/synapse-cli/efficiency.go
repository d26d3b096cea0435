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

// This file implements `efficiency`, which shows how the GPU time of the cluster was used.

func (a *app) efficiencyCommand() *cobra.Command {
	by, days := "class", 0
	c := &cobra.Command{
		Use:   "efficiency",
		Short: "show how the GPU time of the cluster was used",
		Long: "Shows how the GPU time of the cluster was used. Each GPU is in exactly one class at every moment,\n" +
			"from the time when its node joins until the node is removed. The classes therefore add up to the\n" +
			"total GPU time.\n\n" +
			"  productive           Used by a gang after all its tasks have started.\n" +
			"  starting             Allocated to a gang whose tasks have not all started yet.\n" +
			"  stopping             Used by a gang that has ended, until the exit of all its tasks is confirmed.\n" +
			"  lost                 First counted as productive; then the gang ended and its work was lost.\n" +
			"                       Success, cancellation and time limits lose no work.\n" +
			"  reserved             Free, but reserved for a waiting gang.\n" +
			"  idle with demand     Free, and a queued job could use a GPU of this type.\n" +
			"                       Jobs that are held or stopped by a limit do not count.\n" +
			"  idle without demand  Free, and no queued job could use a GPU of this type.\n" +
			"  broken               Out of service because the GPU or its node failed.\n" +
			"  unschedulable        Free, on a node that an operator cordoned or drained.\n\n" +
			"Days are in UTC. The scheduler stores cluster totals for 400 days and totals per owner and queue for\n" +
			"31 days. If the rows are owners or queues, the first 100 names of each day have separate rows. The\n" +
			"row * is the sum of all other names. The row without a name is the time that no job used.",
		Example: "  synapse-cli efficiency --days 7\n  synapse-cli efficiency --by queue -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			kind, known := efficiencyKinds[by]
			if !known {
				return exit.Hint("use "+strings.Join(show.EfficiencyKeys, ", "), "--by %s: unknown key", by)
			}
			if days < 0 {
				return exit.Usage("--days %d: must not be negative", days)
			}
			if !slices.Contains(show.EfficiencyFormats, a.style.Format) {
				return exit.Usage("-o %s: unknown format: use %s", a.style.Format,
					strings.Join(show.EfficiencyFormats[1:], ", "))
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
	f.StringVar(&by, "by", by, "row grouping: "+strings.Join(show.EfficiencyKeys, ", "))
	f.IntVar(&days, "days", days, "number of days to show, including today; 0 shows all stored days")
	f.StringVarP(&a.style.Format, "output", "o", "", "output `format`: "+strings.Join(show.EfficiencyFormats[1:], ", "))
	f.BoolVar(&a.style.NoHeaders, "no-headers", false, "omit the header line")
	f.BoolVar(&a.style.Parsable, "parsable", false, "print untruncated fields separated by |, for scripts")
	a.completeWords(c, "by", show.EfficiencyKeys)
	a.completeWords(c, "output", show.EfficiencyFormats[1:])
	return c
}

// efficiencyKinds maps the values of --by to the kinds in the request.
var efficiencyKinds = map[string]messages.GpuTimeKind{
	"class": messages.GpuTimeKind_GPU_TIME_KIND_CLUSTER, "day": messages.GpuTimeKind_GPU_TIME_KIND_CLUSTER,
	"owner": messages.GpuTimeKind_GPU_TIME_KIND_OWNER, "queue": messages.GpuTimeKind_GPU_TIME_KIND_QUEUE,
}
