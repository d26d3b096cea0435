package main

import (
	"context"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/messages"
)

// This file owns how the jobs are found that a new one is to run after: by what people call them, as everywhere else.

// preceded writes the ids of those jobs into a spec. One that was found before is found again.
func (a *app) preceded(ctx context.Context, c *client.Client, spec *messages.JobSpec) error {
	return precededBy(ctx, c, spec, c.Named)
}

// precededBy has each job found by find. Elements of an array are waited for one by one.
func precededBy(ctx context.Context, c *client.Client, spec *messages.JobSpec, find client.Find) error {
	var all []*messages.After
	for _, after := range spec.GetAfter() {
		found, err := c.Scope(ctx, after.GetJob(), find)
		if err != nil {
			return err
		}
		for _, id := range idsOf(found) {
			all = append(all, &messages.After{Job: id, End: after.GetEnd()})
		}
	}
	spec.After = all
	return nil
}
