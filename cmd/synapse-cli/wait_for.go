package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file owns `wait --for`, which waits for a condition in kubectl's notation instead of the end of a job.

// goal is a condition of --for.
type goal struct {
	text string
	met  func(*messages.JobStatus) bool
}

// conditions maps the conditions of --for=condition=NAME, in lower case.
var conditions = map[string]func(*messages.JobStatus) bool{
	"complete": succeeded, "completed": succeeded, "succeeded": succeeded,
	"failed":  func(j *messages.JobStatus) bool { return over(j) && !succeeded(j) },
	"running": isRunning, "ready": isRunning, "started": isRunning,
	"ended": over, "finished": over, "done": over,
}

func succeeded(j *messages.JobStatus) bool {
	return j.GetRecord().GetState() == messages.JobState_JOB_STATE_SUCCEEDED
}

func isRunning(j *messages.JobStatus) bool { return j.GetPhase() == messages.PhaseRunning }

// parseGoal parses the value of --for.
func parseGoal(text string) (*goal, error) {
	const hint = "write --for=condition=complete, --for=condition=failed, --for=phase=running, --for=delete, or " +
		"--for=jsonpath='{.status.phase}'=running"
	kind, value, _ := strings.Cut(text, "=")
	switch kind {
	case "delete":
		return &goal{"ended", over}, nil
	case "condition":
		name, want, has := strings.Cut(strings.ToLower(value), "=")
		met := conditions[name]
		if met == nil {
			return nil, exit.Hint(hint, "--for=%s: unknown condition %q", text, name)
		}
		if has && want != "true" {
			return nil, exit.Hint(hint, "--for=%s: only the value true is supported", text)
		}
		return &goal{name, met}, nil
	case "phase":
		phase := messages.PhaseOf(strings.ToLower(value))
		if !slices.Contains(messages.Phases, phase) {
			return nil, exit.Hint(spelling.Meant(value, messages.Phases), "--for=%s: unknown phase", text)
		}
		return &goal{phase, func(j *messages.JobStatus) bool { return j.GetPhase() == phase }}, nil
	case "jsonpath":
		path, want, has := strings.Cut(value, "}=")
		if has {
			path += "}"
		}
		if err := show.CheckPath(path); err != nil {
			return nil, exit.Hint(hint, "--for=%s: %v", text, err)
		}
		return &goal{value, func(j *messages.JobStatus) bool {
			got, err := show.JobField(j, path)
			return err == nil && got != "" && (!has || strings.EqualFold(got, want))
		}}, nil
	}
	return nil, exit.Hint(hint, "--for=%s: unknown kind of condition", text)
}

// waitGoals waits until each job meets the condition. It first finds all names.
func (a *app) waitGoals(ctx context.Context, c *client.Client, args []string, g *goal, progress bool) error {
	f := exit.Failures{Tell: a.tell}
	jobs, err := c.Scoped(ctx, args, c.Named, f.Note)
	if err != nil || f.First != nil {
		return cmp.Or(err, f.First)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	for _, j := range jobs {
		err := a.waitGoal(ctx, c, j.GetRecord().GetId(), g, progress)
		if ctx.Err() != nil {
			return err
		}
		f.Note(err)
	}
	return f.First
}

// waitGoal waits until one job meets the condition, or has ended and cannot meet it any more.
func (a *app) waitGoal(ctx context.Context, c *client.Client, id string, g *goal, progress bool) error {
	shown := func(*messages.JobStatus) {}
	if progress {
		shown = a.progress()
	}
	status, err := c.WaitUntil(ctx, id, a.lost, func(j *messages.JobStatus) bool {
		if g.met(j) {
			return true
		}
		shown(j)
		return over(j)
	})
	switch {
	case errors.Is(err, context.Canceled):
		a.say("job %s continues; `%s cancel %s` stops it", id, a.name, id)
		return err
	case err != nil && exit.Code(err) == exit.TimedOut:
		return &exit.Failure{Code: exit.TimedOut, Text: "job " + id + " did not become " + g.text + " in time",
			Hint: "run `" + a.name + " explain " + id + "` to see its state"}
	case err != nil:
		return err
	case g.met(status):
		return a.data("Job %s is %s", id, g.text)
	}
	return &exit.Failure{Code: max(show.ExitCode(status.GetRecord()), exit.Failed),
		Text: howItEnded(status) + "; the condition " + g.text + " cannot become true"}
}
