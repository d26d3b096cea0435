package messages

import "github.com/yi-json/synapse/messages/plain"

// This file maps the IDs of jobs to numbers, for tools that need numeric IDs, such as the Slurm commands.

// NumericID returns the job's ID if it is a number. Otherwise it returns a hash of the ID between 2^30 and 2^31. Two
// jobs can have the same hash, so the caller must compare the full ID.
func NumericID(id string) string { return plain.NumericID(id) }
