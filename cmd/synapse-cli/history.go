package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file implements `history`, which shows finished jobs and their usage.

// pastFlags holds the flags of `history`.
type pastFlags struct {
	query                     messages.History
	me                        bool
	states, labels            []string
	since, until, format, sum string
	limit                     int
	limited                   bool // the limit was given
}

// maxPast is the default number of jobs in a table. Other formats have no default limit.
const maxPast = 100

func (a *app) historyCommand() *cobra.Command {
	h := &pastFlags{}
	c := &cobra.Command{
		Use:   "history",
		Short: "list finished jobs and their usage",
		Long: "Lists finished jobs, newest first, with their wait time, run time, GPUs and result. If --sum is set,\n" +
			"the command shows totals instead of jobs. The scheduler keeps finished jobs for the period that its\n" +
			"flag --keep-finished sets.\n\n" +
			"The GPU time of a job includes all attempts. It counts each GPU from its allocation until the task\n" +
			"on it has ended. Use --since and --until to select jobs by their end time. Both flags accept an age\n" +
			"(24h, 7d), the start of a day in UTC (2026-11-01), or a time (2026-11-01T08:00:00Z).",
		Example: "  synapse-cli history --me --since 24h\n" +
			"  synapse-cli history --since 2026-11-01 --until 2026-12-01 --sum owner\n" +
			"  synapse-cli history --state failed,timed-out --queue research -o json --ranks\n" +
			"  synapse-cli history --since 30d -o csv > month.csv",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h.limited = c.Flags().Changed("limit")
			if err := a.checkPast(h); err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.history(ctx, c, h) })
		},
	}
	f := c.Flags()
	f.StringVar(&h.query.Owner, "owner", "", "list only jobs of this owner")
	f.BoolVar(&h.me, "me", false, "list only my own jobs")
	f.StringVar(&h.query.Queue, "queue", "", "list only jobs in this queue")
	f.StringVar(&h.query.Name, "name", "", "list only jobs with this name")
	f.StringSliceVar(&h.states, "state", nil, "list only jobs with these results: "+strings.Join(stateNames(), ", "))
	f.StringArrayVarP(&h.labels, "label", "l", nil, "list only jobs with this `key=value` label")
	f.StringVar(&h.since, "since", "", "list only jobs that ended at this `time` or later")
	f.StringVar(&h.until, "until", "", "list only jobs that ended before this `time`")
	f.IntVar(&h.limit, "limit", 0,
		"maximum number of jobs, newest first; 0 lists all (default: 100 in a table, all in other formats)")
	f.BoolVar(&h.query.Ranks, "ranks", false, "include the node, GPUs and result of each task; requires -o json")
	f.StringVar(&h.sum, "sum", "", "show totals instead of jobs, grouped by "+strings.Join(show.SumKeys, ", "))
	f.StringVarP(&h.format, "output", "o", "", "output `format`: "+strings.Join(show.HistoryFormats, ", "))
	f.BoolVar(&a.style.NoHeaders, "no-headers", false, "omit the header line")
	f.BoolVarP(&a.style.Quiet, "quiet", "q", false, "print only IDs")
	f.BoolVar(&a.style.Parsable, "parsable", false, "print untruncated fields separated by |, for scripts")
	for flag, words := range map[string][]string{"output": show.HistoryFormats, "sum": show.SumKeys,
		"state": stateNames()} {
		a.completeWords(c, flag, words)
	}
	a.completeFlag(c, "queue", a.completeQueues)
	return c
}

// pastStates lists the final states of a job.
var pastStates = []messages.JobState{
	messages.JobState_JOB_STATE_SUCCEEDED, messages.JobState_JOB_STATE_FAILED, messages.JobState_JOB_STATE_CANCELLED,
	messages.JobState_JOB_STATE_TIMED_OUT,
}

func stateNames() []string {
	var names []string
	for _, s := range pastStates {
		names = append(names, messages.EndPhase(s))
	}
	return names
}

// checkPast parses the flags and refuses contradictory ones.
func (a *app) checkPast(h *pastFlags) error {
	if h.format != "" && !slices.Contains(show.HistoryFormats, h.format) {
		return exit.Usage("-o %s: unknown format: use %s", h.format, strings.Join(show.HistoryFormats, ", "))
	}
	asked := a.style
	if asked.Format = h.format; asked.CheckOne() != nil {
		return exit.Usage("%s", asked.CheckOne())
	}
	if a.style.Format = h.format; h.format == "table" {
		a.style.Format = ""
	}
	table := a.forPeople()
	switch {
	case h.me && h.query.Owner != "":
		return exit.Usage("--me and --owner cannot be combined")
	case h.limit < 0:
		return exit.Usage("--limit %d: must not be negative", h.limit)
	case h.sum != "" && !slices.Contains(show.SumKeys, h.sum):
		return exit.Hint("use "+strings.Join(show.SumKeys, ", "), "--sum %s: unknown key", h.sum)
	case h.sum != "" && h.limited:
		return exit.Hint("use --since to select fewer jobs", "--limit and --sum cannot be combined")
	case h.sum != "" && (h.query.Ranks || a.style.Quiet || h.format == "name"):
		return exit.Usage("--sum cannot be combined with --ranks, -q or -o name")
	case h.query.Ranks && h.format != "json":
		return exit.Hint("add -o json", "--ranks requires a structured output format")
	case table && !h.limited && h.sum == "":
		h.limit = maxPast
	}
	return a.readPast(h)
}

// readPast converts the flags into a query.
func (a *app) readPast(h *pastFlags) (err error) {
	chosen, err := parseSelector(h.labels)
	if err != nil {
		return err
	}
	if h.query.Labels = chosen.equal(); len(h.query.Labels) != len(chosen) {
		return exit.Hint("write key=value, each key once", "--label %s: history supports only key=value",
			strings.Join(h.labels, ","))
	}
	for _, word := range h.states {
		at := slices.Index(stateNames(), messages.PhaseOf(word))
		if at < 0 {
			return exit.Hint("use "+strings.Join(stateNames(), ", "), "--state %s: unknown state", word)
		}
		h.query.States = append(h.query.States, pastStates[at])
	}
	if h.query.SinceUnixMs, err = moment("since", h.since, a.style.NowMs); err != nil {
		return err
	}
	if h.query.UntilUnixMs, err = moment("until", h.until, a.style.NowMs); err != nil {
		return err
	}
	if u := h.query.UntilUnixMs; u != 0 && u <= h.query.SinceUnixMs {
		return exit.Usage("--until %s is not later than --since %s", h.until, h.since)
	}
	return nil
}

// moment parses a duration before now, a day or a time. It returns 0 if the flag is not set.
func moment(flag, text string, nowMs int64) (int64, error) {
	if text == "" {
		return 0, nil
	}
	ms := int64(-1)
	if ago, err := jobfile.ParseDuration(text); err == nil {
		ms = nowMs - ago
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			ms = at.UnixMilli()
		}
	}
	if ms <= 0 || ms > messages.MaxTimeUnixMs {
		return 0, exit.Hint("write 24h, 7d, 2026-11-01 or 2026-11-01T08:00:00Z", "--%s %q: not a time", flag,
			text)
	}
	return ms, nil
}

func (a *app) history(ctx context.Context, c *client.Client, h *pastFlags) error {
	if h.me {
		var err error
		if h.query.Owner, err = c.Name(ctx); err != nil {
			return err
		}
	}
	if h.sum != "" {
		sums := show.NewSums(h.sum)
		if _, err := c.Past(ctx, &h.query, 0, a.counting(sums.Add)); err != nil {
			return err
		}
		return sums.End(a.out, a.style)
	}
	list, none := show.NewHistory(a.out, a.style), true
	more, err := c.Past(ctx, &h.query, h.limit, a.counting(func(jobs []*messages.PastJob) error {
		none = none && len(jobs) == 0
		return list.Add(jobs)
	}))
	if err != nil {
		return err
	}
	if none && a.forPeople() {
		a.say("no finished jobs")
	}
	if err := list.End(); err != nil {
		return err
	}
	if more && !h.limited {
		a.say("more jobs exist: use --limit 0 to show all, or --since to select fewer")
	}
	return nil
}

// countEvery is the interval of progress lines for a long answer.
const countEvery = 5 * time.Second

// counting reports the progress of a long answer, and the unreadable jobs.
func (a *app) counting(take func([]*messages.PastJob) error) func(*messages.HistoryReply) error {
	told, jobs := time.Now(), 0
	return func(page *messages.HistoryReply) error {
		if jobs += len(page.GetJobs()); time.Since(told) >= countEvery {
			told = time.Now()
			a.say("%s: %d jobs so far", a.name, jobs)
		}
		for _, words := range page.GetDamaged() {
			a.say("skipped because its record is corrupted: %s", words)
		}
		return take(page.GetJobs())
	}
}
