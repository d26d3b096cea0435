package slurmcmd

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file prints Slurm's JSON.

// jsonFlag adds --json, which may name a version. The answer always has the version of package slurm.
func jsonFlag(f *pflag.FlagSet, to *bool) {
	f.Var(jsonValue{to}, "json", "")
	f.Lookup("json").NoOptDefVal = "yes"
}

type jsonValue struct{ to *bool }

func (v jsonValue) String() string   { return "" }
func (v jsonValue) Type() string     { return "version" }
func (v jsonValue) Set(string) error { *v.to = true; return nil }

// answerJSON prints objects under a key, with the other keys of Slurm's answers.
func answerJSON[T any](ctx context.Context, a *CLI, c *client.Client, key string, all []T,
	of func(T) map[string]any) error {
	me, err := a.me(ctx, c)
	if err != nil {
		return err
	}
	objects := []map[string]any{}
	for _, one := range all {
		objects = append(objects, of(one))
	}
	now := map[string]any{"set": true, "infinite": false, "number": time.Now().Unix()}
	text, err := json.MarshalIndent(map[string]any{
		key: objects, "last_update": now, "last_backfill": now, "meta": slurm.Meta(me, []string{a.Name}),
		"warnings": []any{}, "errors": []any{},
	}, "", "  ")
	if err != nil {
		return err
	}
	return a.Page(string(text))
}

// scontrolJSON implements `scontrol show` with --json.
func (a *CLI) scontrolJSON(words []string) error {
	if len(words) == 0 {
		return exit.Usage("show needs an entity")
	}
	kind, name := entity(words)
	return a.With(func(ctx context.Context, c *client.Client) error {
		switch kind {
		case "job", "jobid":
			var all []*slurm.Entry
			var err error
			if name == "" {
				all, err = a.entries(ctx, c, &choice{Choice: query.Choice{Choice: command.Choice{StateList: "all"}}})
			} else {
				err = a.eachJob(ctx, c, []string{name}, func(j *messages.JobStatus) error {
					all = append(all, slurm.Of(j, time.Now().UnixMilli()))
					return nil
				})
			}
			if err != nil {
				return err
			}
			return answerJSON(ctx, a, c, "jobs", all, (*slurm.Entry).Object)
		case "node", "nodename":
			all, err := a.machinesNamed(ctx, c, name)
			if err != nil {
				return err
			}
			partitions, err := a.partitions(ctx, c, "")
			if err != nil {
				return err
			}
			return answerJSON(ctx, a, c, "nodes", all, func(m *slurm.Machine) map[string]any {
				return m.Object(query.PartitionsOf(m, partitions))
			})
		case "partition", "partitionname":
			all, err := a.partitions(ctx, c, name)
			if err != nil {
				return err
			}
			return answerJSON(ctx, a, c, "partitions", all, (*slurm.Partition).Object)
		}
		return exit.Hint("use job, node or partition", "show %s is not supported with --json", words[0])
	})
}
