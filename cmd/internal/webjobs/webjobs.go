// Package webjobs reads job files for the web UI. synapse-cli and synapse-scheduler serve the web UI, and both read
// the files as `synapse-cli submit` does.
package webjobs

import (
	"context"
	"errors"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/web"
)

// Files implements web.JobFiles.
type Files struct{}

// Read returns the jobs in a file, or the errors of the file. It opens no file and reads no variable.
func (Files) Read(text []byte) ([]*messages.JobSpec, []web.Problem) {
	specs, err := jobfile.Parse(text)
	var all jobfile.Problems
	switch {
	case err == nil:
		return specs, nil
	case !errors.As(err, &all):
		return nil, []web.Problem{{Text: err.Error()}}
	}
	var problems []web.Problem
	for _, p := range all {
		problems = append(problems, web.Problem{Line: p.Line, Column: p.Column, Path: p.Path, Text: p.Text, Hint: p.Hint})
	}
	return nil, problems
}

// Precede replaces the names of earlier jobs in a spec by IDs.
func (Files) Precede(ctx context.Context, on api.SynapseClient, spec *messages.JobSpec) error {
	c := client.Over(on)
	return c.Precede(ctx, spec, c.Named)
}
