package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file prints the running jobs that hold resources and do nothing.

// mostIdleOwners limits the owners in the words of top.
const mostIdleOwners = 3

var idleColumns = []column[job]{
	{head: "JOB", cell: job.id},
	{head: "NAME", cell: func(j job) string { return j.spec().Called() }},
	{head: "OWNER", cell: func(j job) string { return orDash(j.GetRecord().Whose()) }},
	{head: "QUEUE", drop: 1, cell: func(j job) string { return orDash(j.spec().GetQueue()) }},
	{head: "GPUS", right: true, cell: job.gpus},
	{head: "CPU", right: true, cell: func(j job) string { return orDash(j.GetUse().CPUWords()) }},
	{head: "IDLE", right: true, cell: func(j job) string { return messages.Span(j.GetUse().GetIdleMs()) }},
	{head: "GPU-HOURS", right: true, cell: func(j job) string { return idleHours(messages.IdleMilliGPUMs(j.JobStatus)) }},
	{head: "RUNTIME", drop: 2, right: true, cell: job.ran},
}

// IdleJobs prints idle jobs with the GPU time that each has held since it became idle.
func IdleJobs(w io.Writer, s Style, list []*messages.JobStatus) error {
	if s.Format != "" && s.Format != "wide" || s.Quiet {
		return Jobs(w, s, list)
	}
	return table(w, s, idleColumns, each(list, func(j *messages.JobStatus) job { return job{j, s.NowMs} }))
}

func idleHours(milliGPUMs int64) string { return fmt.Sprintf("%.1f", gpuSeconds(milliGPUMs)/3600) }

// idleWords returns the GPU time that idle jobs hold, with the owners of most of it; "" if no job is known to be idle.
func idleWords(jobs []*messages.JobStatus) string {
	of, total, n := map[string]int64{}, int64(0), 0
	for _, j := range jobs {
		if lost := messages.IdleMilliGPUMs(j); messages.Idle(j, messages.IdleAfterMs) && lost > 0 {
			of[j.GetRecord().Whose()] += lost
			total, n = total+lost, n+1
		}
	}
	if n == 0 {
		return ""
	}
	var owners []string
	for owner := range of { //order: sorted below
		owners = append(owners, owner)
	}
	slices.SortFunc(owners, func(x, y string) int { return cmp.Or(cmp.Compare(of[y], of[x]), strings.Compare(x, y)) })
	for i, owner := range owners {
		owners[i] = owner + " " + idleHours(of[owner])
	}
	if len(owners) > mostIdleOwners {
		owners = append(owners[:mostIdleOwners], "…")
	}
	return fmt.Sprintf(", %d idle for %s GPU-hours: %s", n, idleHours(total), strings.Join(owners, ", "))
}
