package scheduler

import (
	"fmt"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what people are told who want something of a job that is not there.

// noJob says why nobody is there to pass a wish on to: before the store is read,
// and while a job's actor is recreated, that is no answer about the job.
func (s *Scheduler) noJob(id string) *messages.Outcome {
	if s.states.In(schedulerLoading) || s.jobs[topology.JobID(id)] != nil {
		return &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE, Text: "this leader has just taken over and is not ready",
			Hint: "try again in a moment",
		}
	}
	if d := s.damaged[topology.JobID(id)]; d != nil {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job", Text: damageOf(d.Damaged), Hint: "nothing else can be done with it",
		}
	}
	return noSuchJob(id)
}

func noSuchJob(id string) *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_FOUND, Field: "job", Text: fmt.Sprintf("no job %q is waiting or running", id),
		Hint: "list the jobs to see its id; a job that has ended cannot be changed",
	}
}
