package main

import (
	"context"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/messages"
)

// This file owns how the jobs are found that a new one is to run after: by what people call them, as everywhere else.

// preceded writes the ids of those jobs into a spec. One that was found before is found again.
func (a *app) preceded(ctx context.Context, c *client.Client, spec *messages.JobSpec) error {
	for i, after := range spec.GetAfter() {
		status, err := c.Job(ctx, after.GetJob())
		if err != nil {
			return err
		}
		spec.After[i] = &messages.After{Job: status.GetRecord().GetId(), End: after.GetEnd()}
	}
	return nil
}
