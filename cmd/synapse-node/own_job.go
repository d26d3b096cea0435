package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/server/api"
)

// This file asks the scheduler to show or change the job of a task, for the task.

// ownVerbs maps the words of a task to the verbs of the call.
var ownVerbs = map[string]api.OwnVerb{
	"show": api.OwnVerb_OWN_VERB_SHOW, "requeue": api.OwnVerb_OWN_VERB_REQUEUE,
	"requeue-hold": api.OwnVerb_OWN_VERB_REQUEUE_HOLD, "cancel": api.OwnVerb_OWN_VERB_CANCEL,
}

// ownJobOver returns a function that makes the request over a link, until a scheduler answers.
func ownJobOver(link asker) func(context.Context, launcher.OwnRequest) ([]string, error) {
	return func(ctx context.Context, r launcher.OwnRequest) (lines []string, err error) {
		err = fetch(ctx, link, func(ctx context.Context, c api.SynapseClient) error {
			reply, err := c.OwnJob(ctx, &api.OwnJob{Job: r.Job, Attempt: r.Attempt, Rank: r.Rank, Verb: ownVerbs[r.Verb]})
			if r.Verb == "show" {
				lines = aboutJob(reply.GetJob())
			}
			return err
		})
		if ctx.Err() != nil {
			err = fmt.Errorf("no scheduler answers: try again (%w)", err)
		}
		return lines, err
	}
}

// aboutJob returns lines NAME=value about a job, for programs inside the job.
func aboutJob(j *messages.JobStatus) (lines []string) {
	r := j.GetRecord()
	add := func(name, value string) {
		lines = append(lines, name+"="+strings.ReplaceAll(messages.AsText(value), "\n", " ")+"\n")
	}
	add("id", r.GetId())
	add("phase", j.GetPhase())
	add("owner", r.Whose())
	add("name", r.GetSpec().Called())
	add("queue", r.GetSpec().GetQueue())
	add("priority", strconv.FormatInt(int64(r.GetSpec().GetPriority()), 10))
	add("restarts", strconv.FormatInt(int64(max(0, r.GetRuns()-1)), 10))
	add("limit", seconds(r.GetSpec().GetTimeLimitMs()))
	add("submitted", seconds(r.GetSubmittedUnixMs()))
	for _, l := range r.GetSpec().GetLabels() {
		if l.GetKey() == "account" || l.GetKey() == "comment" {
			add(l.GetKey(), l.GetValue())
		}
	}
	return lines
}

func seconds(ms int64) string { return strconv.FormatInt(ms/time.Second.Milliseconds(), 10) }
