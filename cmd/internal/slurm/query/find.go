// Package query makes the requests of Slurm's commands and of its REST API: it finds jobs by their numbers, lists jobs,
// nodes and partitions as Slurm does, and completes jobs before their submit. Package slurm has the words and the
// options.
package query

import (
	"context"
	"slices"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/messages"
)

// This file finds jobs.

// InvalidJob returns Slurm's error for an unknown job ID.
func InvalidJob(word string) error {
	return &client.Error{Code: messages.Code_CODE_NOT_FOUND, Text: "Invalid job id specified: " + word}
}

// Find finds jobs by Slurm's number, or by a name. If two jobs have the same number, the error lists their IDs.
func Find(c *client.Client) client.Find {
	return func(ctx context.Context, word string) (*messages.JobStatus, error) {
		if word == "" || strings.Trim(word, "0123456789") != "" {
			return known(word)(c.Named(ctx, word))
		}
		for _, elements := range []bool{false, true} {
			all, err := c.Jobs(ctx, &messages.ListJobs{Elements: elements})
			if err != nil {
				return nil, err
			}
			var found []string
			for _, j := range all {
				if messages.NumericID(j.GetRecord().GetId()) == word {
					found = append(found, j.GetRecord().GetId())
				}
			}
			switch {
			case len(found) > 1:
				return nil, &client.Error{Code: messages.Code_CODE_CONFLICT, Hint: "use one of these IDs",
					Text: word + " is ambiguous: jobs " + strings.Join(found, " and ") + " have this number"}
			case len(found) == 1:
				return known(word)(c.Named(ctx, found[0]))
			}
		}
		return nil, InvalidJob(word)
	}
}

// known converts a missing job into Slurm's error.
func known(word string) func(*messages.JobStatus, error) (*messages.JobStatus, error) {
	return func(j *messages.JobStatus, err error) (*messages.JobStatus, error) {
		if client.Is(err, messages.Code_CODE_NOT_FOUND) {
			return nil, InvalidJob(word)
		}
		return j, err
	}
}

// Listed reports whether a comma-separated list contains a word. An empty list contains every word.
func Listed(text, word string) bool {
	return text == "" || slices.Contains(strings.Split(text, ","), word)
}
