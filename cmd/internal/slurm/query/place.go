package query

import (
	"context"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/messages"
)

// This file reads the nodes of jobs, which lists omit.

// singly limits the jobs that are read one by one. The ledgers of the nodes tell the nodes of more jobs: a list with
// thousands of running jobs would otherwise exceed the rate limit of its user.
const singly = 16

// Place replaces the jobs of a list by jobs with the places of their latest attempts. A job that the scheduler does not
// know any more keeps what the list says.
func Place(ctx context.Context, c *client.Client, jobs []*messages.JobStatus) error {
	var placed []int
	for i, j := range jobs {
		if j.GetTasks() > 0 && j.GetRecord().GetState() != messages.JobState_JOB_STATE_QUEUED {
			placed = append(placed, i)
		}
	}
	if len(placed) > singly {
		return byLedgers(ctx, c, jobs)
	}
	for _, i := range placed {
		reply, err := c.GetJob(ctx, &messages.GetJob{Job: jobs[i].GetRecord().GetId()})
		switch {
		case err == nil:
			jobs[i] = reply.GetJob()
		case !client.Is(err, messages.Code_CODE_NOT_FOUND):
			return err
		}
	}
	return nil
}

// attemptKey names an attempt of a job.
type attemptKey struct {
	job            string
	epoch, counter uint64
}

func keyOf(job string, t *messages.Token) attemptKey {
	return attemptKey{job, t.GetEpoch(), t.GetCounter()}
}

// byLedgers sets the places of jobs from the ledgers of all nodes. It does not know the ranks.
func byLedgers(ctx context.Context, c *client.Client, jobs []*messages.JobStatus) error {
	nodes, err := c.Nodes(ctx)
	if client.Is(err, messages.Code_CODE_NOT_ALLOWED) {
		return nil // the caller may not see the nodes
	}
	of := map[attemptKey][]*messages.Place{}
	for _, n := range nodes {
		for _, s := range n.GetLedger().GetSlices() {
			key := keyOf(s.GetJob(), s.GetToken())
			of[key] = append(of[key], &messages.Place{Node: n.GetRecord().GetId()})
		}
	}
	for _, j := range jobs {
		if places := of[keyOf(j.GetRecord().GetId(), j.GetAttempt().GetToken())]; len(places) > 0 {
			j.Attempt.Places = places
		}
	}
	return err
}
