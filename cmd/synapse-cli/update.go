package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements changes of unfinished jobs, `priority` and `update`, and refuses `suspend`.

// priorityCommand takes the number as the last argument, after one or more jobs.
func (a *app) priorityCommand() *cobra.Command {
	change := &messages.Update{SetPriority: true}
	var labels []string
	c := &cobra.Command{
		Use:   "priority [JOB]... N",
		Short: "change the priority of jobs",
		Long: "Changes the priority of jobs; jobs with higher priority start first. The change is safe on the\n" +
			"scheduler's disk when the command ends. Running jobs continue; the new priority applies to them if\n" +
			"they return to the queue.",
		Example: "  synapse-cli priority JOB 100\n" +
			"  synapse-cli priority JOB -- -5          # start this job after all others\n" +
			"  synapse-cli priority -l team=nlp 10",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Hint("run `"+a.name+" priority JOB 100`", "JOB or N is missing")
			}
			last := args[len(args)-1]
			n, err := strconv.ParseInt(last, 10, 32)
			switch {
			case err != nil:
				return exit.Hint("run `"+a.name+" priority JOB 100`", "%q is not a priority", last)
			case n < -messages.MaxPriority || n > messages.MaxPriority:
				return exit.Usage("priority must be a number from %d to %d", -messages.MaxPriority,
					messages.MaxPriority)
			}
			change.Priority = int32(n)
			return jobsOrLabels(args[:len(args)-1], labels)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				return a.toJobs(ctx, c, args[:len(args)-1], labels, a.updates(change))
			})
		},
		ValidArgsFunction: a.completeLive,
	}
	c.Flags().StringArrayVarP(&labels, "label", "l", nil,
		"select all unfinished jobs with these labels: "+selectorHelp)
	c.Flags().StringVarP(&change.Reason, "reason", "r", "", "reason to record, shown to other users")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown shorthand flag: ") {
			return exit.Hint("write the number after --, as in `"+a.name+" priority JOB -- -5`",
				"a negative priority needs --: %s", err)
		}
		return refusedFlag(c, err)
	})
	return c
}

func (a *app) updateCommand() *cobra.Command {
	change := &messages.Update{}
	c := a.jobsCommand("update", "change the time limit, priority, earliest start or deadline of jobs",
		"  synapse-cli update JOB --time-limit 48h\n  synapse-cli update JOB --priority 100 --reason \"a deadline\"",
		a.updates(change))
	c.Long = "Changes the priority, time limit, earliest start or deadline of jobs. The change is safe on the\n" +
		"scheduler's disk when the command ends.\n\n" +
		"A new time limit also applies to the current attempt, and counts from the start of that attempt. If\n" +
		"the attempt has already run longer than the limit, the job ends at once as timed out. The value 0\n" +
		"removes the limit.\n\n" +
		"--begin sets the earliest start of a waiting job; the job keeps its place in the queue. The value\n" +
		"now removes the earliest start.\n\n" +
		"--deadline sets the latest end of a waiting job. The job needs a time limit, and is cancelled if it can\n" +
		"no longer end in time. The value none removes the deadline.\n\n" +
		"A change of an array applies to all its elements. You can also change one element, even if that\n" +
		"element is not a job yet. --array-max-running replaces the number after % in `submit --array\n" +
		"0-99%10`. If more elements are running, they continue.\n\n" +
		"--owner is for jobs submitted before the cluster used TLS. An admin assigns such a job to a user, who can\n" +
		"then see its contents and cancel it. Accounting and owner limits continue to count the job as anonymous."
	limit := c.Flags().VarPF(span{&change.TimeLimitMs}, "time-limit", "t",
		"maximum run time of an attempt, such as 48h or 48:00:00; 0 removes the limit")
	begin := c.Flags().VarPF(timeOfDay{&change.BeginUnixMs}, "begin", "b",
		"earliest start, such as 08:00 (today or tomorrow), 2026-11-24T08:00 or now+2h; the value now removes the "+
			"earliest start")
	deadline := c.Flags().VarPF(timeOrNone{timeOfDay{&change.DeadlineUnixMs}}, "deadline", "",
		"latest end, such as 2026-11-24T08:00 or now+2h; the value none removes the deadline")
	priority := c.Flags().VarPF(ordinal{&change.Priority}, "priority", "",
		"priority of the job; jobs with higher priority start first")
	most := c.Flags().VarPF(ordinal{&change.ArrayMost}, "array-max-running", "",
		"maximum number of running array elements; 0 removes the limit")
	c.Flags().StringVar(&change.GiveTo, "owner", "", "`user` who becomes the owner of a job whose owner is "+
		"anonymous (admins only)")
	c.Flags().StringVarP(&change.Reason, "reason", "r", "", "reason to record, shown to other users")
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		change.SetPriority, change.SetTimeLimit, change.SetBegin = priority.Changed, limit.Changed, begin.Changed
		change.SetArrayMost, change.SetDeadline = most.Changed, deadline.Changed
		if change.ArrayMost < 0 || change.ArrayMost > messages.MaxElements {
			return exit.Usage("--array-max-running must be a number from 0 to %d", messages.MaxElements)
		}
		if !priority.Changed && !limit.Changed && !begin.Changed && !deadline.Changed && !most.Changed &&
			change.GiveTo == "" {
			return exit.Hint("use --time-limit, --priority, --begin, --deadline, --array-max-running or --owner; for other "+
				"changes, `cancel` the job and submit a new one", "no change is requested")
		}
		return check(c, args)
	}
	return c
}

// ordinal is a flag for a priority.
type ordinal struct{ to *int32 }

func (o ordinal) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < -messages.MaxPriority || n > messages.MaxPriority {
		return &jobfile.Problem{Text: strconv.Quote(text) + " is not a priority", Hint: "write a whole number, at most " +
			strconv.Itoa(messages.MaxPriority)}
	}
	*o.to = int32(n)
	return nil
}

func (ordinal) String() string { return "" }
func (ordinal) Type() string   { return "number" }

// updates changes one job, and returns a text about the stored values.
func (a *app) updates(change *messages.Update) act {
	return func(ctx context.Context, c *client.Client, j *messages.JobStatus) (string, error) {
		change.Job = j.GetRecord().GetId()
		reply, err := c.Update(ctx, change)
		if err != nil {
			return "", err
		}
		var now []string
		if change.GetSetPriority() {
			now = append(now, "priority "+strconv.Itoa(int(reply.GetPriority())))
		}
		if change.GetSetTimeLimit() {
			limit := "no time limit"
			if ms := reply.GetTimeLimitMs(); ms > 0 {
				limit = "time limit " + jobfile.FormatDuration(ms)
			}
			if reply.GetTimeIsUp() {
				limit += ", which the current attempt has exceeded: the job is being ended"
			}
			now = append(now, limit)
		}
		if change.GetSetBegin() {
			begin := "no begin"
			if at := reply.GetBeginUnixMs(); at > 0 {
				begin = "begin " + a.local(jobfile.FormatMoment(at))
			}
			now = append(now, begin)
		}
		if change.GetSetDeadline() {
			deadline := "no deadline"
			if at := reply.GetDeadlineUnixMs(); at > 0 {
				deadline = "deadline " + a.local(jobfile.FormatMoment(at))
			}
			now = append(now, deadline)
		}
		if change.GetSetArrayMost() {
			at := "any number of elements"
			if n := reply.GetArrayMost(); n > 0 {
				at = strconv.Itoa(int(n)) + " elements"
			}
			now = append(now, at+" at once")
		}
		if change.GetGiveTo() != "" {
			now = append(now, "owner "+reply.GetGivenTo())
		}
		return "has " + strings.Join(now, " and "), nil
	}
}

// suspendCommand refuses Slurm's suspend with the reason and an alternative.
func (a *app) suspendCommand() *cobra.Command {
	return &cobra.Command{
		Use: "suspend JOB...", Hidden: true, Args: cobra.ArbitraryArgs, DisableFlagParsing: true,
		Short: "explain why jobs cannot be suspended (use requeue --hold)",
		RunE: func(*cobra.Command, []string) error {
			return exit.Hint("run `"+a.name+" requeue JOB --hold` to stop it, and `release JOB` to run it "+
				"again; use `hold JOB` for a waiting job",
				"suspend is not supported: a paused task would keep its GPU memory, and its connections would time out")
		},
	}
}
