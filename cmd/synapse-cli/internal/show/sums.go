package show

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file computes sums over finished jobs. A job counts completely in the group of its owner, its queue, or the
// day of its end (UTC).

// SumKeys lists the possible keys.
var SumKeys = []string{"owner", "queue", "day"}

// sum is one group. It stores only a number per job, so that a million jobs fit into memory.
type sum struct {
	key                                          string
	jobs, succeeded, failed, cancelled, timedOut int
	milliGPUMs, ranMs, waitedMs                  int64
	waits                                        []int64 // of jobs that started, in ms
}

func (s *sum) add(j past) {
	s.jobs++
	switch j.GetState() {
	case messages.JobState_JOB_STATE_SUCCEEDED:
		s.succeeded++
	case messages.JobState_JOB_STATE_CANCELLED:
		s.cancelled++
	case messages.JobState_JOB_STATE_TIMED_OUT:
		s.timedOut++
	default:
		s.failed++
	}
	s.milliGPUMs += j.GetMilliGpuMs()
	s.ranMs += j.ranMs()
	if ms, started := j.waitMs(); started {
		s.waitedMs += ms
		s.waits = append(s.waits, ms)
	}
}

// meanMs returns the mean waiting time of the jobs that started.
func (s *sum) meanMs() int64 {
	if len(s.waits) == 0 {
		return 0
	}
	return s.waitedMs / int64(len(s.waits))
}

// p95Ms returns the 95th percentile of the waiting times. End has sorted them.
func (s *sum) p95Ms() int64 {
	if len(s.waits) == 0 {
		return 0
	}
	return s.waits[(len(s.waits)*95+99)/100-1]
}

// Sums collects finished jobs in groups.
type Sums struct {
	by     string
	groups map[string]*sum
	total  sum
}

// NewSums creates a Sums for one of SumKeys.
func NewSums(by string) *Sums { return &Sums{by: by, groups: map[string]*sum{}} }

// Add adds jobs.
func (s *Sums) Add(jobs []*messages.PastJob) error {
	for _, j := range jobs {
		var key string
		switch s.by {
		case "owner":
			key = j.GetOwner()
		case "queue":
			key = j.GetQueue()
		default:
			key = time.UnixMilli(j.GetFinishedUnixMs()).UTC().Format(time.DateOnly)
		}
		g := s.groups[key]
		if g == nil {
			g = &sum{key: key}
			s.groups[key] = g
		}
		g.add(past{PastJob: j})
		s.total.add(past{PastJob: j})
	}
	return nil
}

// sorted returns the groups: days in order, other groups by usage.
func (s *Sums) sorted() []*sum {
	var all []*sum
	for _, g := range s.groups { //order: sorted below
		slices.Sort(g.waits)
		all = append(all, g)
	}
	slices.Sort(s.total.waits)
	slices.SortFunc(all, func(a, b *sum) int {
		byUse := cmp.Compare(b.milliGPUMs, a.milliGPUMs)
		if s.by == "day" {
			byUse = 0
		}
		return cmp.Or(byUse, strings.Compare(a.key, b.key))
	})
	return all
}

type sumsObj struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	By         string   `json:"by"`
	Items      []sumObj `json:"items"`
	Total      sumObj   `json:"total"`
}

type sumObj struct {
	Key             string  `json:"key"`
	Jobs            int     `json:"jobs"`
	Succeeded       int     `json:"succeeded"`
	Failed          int     `json:"failed"`
	Cancelled       int     `json:"cancelled"`
	TimedOut        int     `json:"timedOut"`
	Started         int     `json:"started"`
	RunSeconds      float64 `json:"runtimeSeconds"`
	GPUSeconds      float64 `json:"gpuSeconds"`
	WaitMeanSeconds float64 `json:"waitMeanSeconds"`
	WaitP95Seconds  float64 `json:"waitP95Seconds"`
}

func (s *sum) object() sumObj {
	return sumObj{
		Key: s.key, Jobs: s.jobs, Succeeded: s.succeeded, Failed: s.failed, Cancelled: s.cancelled, TimedOut: s.timedOut,
		Started:    len(s.waits),
		RunSeconds: seconds(s.ranMs), GPUSeconds: gpuSeconds(s.milliGPUMs), WaitMeanSeconds: seconds(s.meanMs()),
		WaitP95Seconds: seconds(s.p95Ms()),
	}
}

// End prints the sums. The last row of a table is the total. CSV has no total, because its readers compute sums
// themselves.
func (s *Sums) End(w io.Writer, style Style) error {
	all := s.sorted()
	switch style.Format {
	case "json":
		o := sumsObj{"synapse/v1", "HistorySums", s.by, []sumObj{}, s.total.object()}
		for _, g := range all {
			o.Items = append(o.Items, g.object())
		}
		return document(w, "json", o)
	case "csv":
		return s.csv(w, style, all)
	}
	if s.total.key = "total"; len(all) > 0 && !style.Parsable {
		all = append(all, &s.total)
	}
	return table(w, style, sumColumns(s.by), all)
}

func sumColumns(by string) []column[*sum] {
	number := func(of func(*sum) int) func(*sum) string { return func(s *sum) string { return fmt.Sprint(of(s)) } }
	wait := func(of func(*sum) int64) func(*sum) string {
		return func(s *sum) string {
			if len(s.waits) == 0 {
				return "-"
			}
			return messages.Span(of(s))
		}
	}
	return []column[*sum]{
		{head: strings.ToUpper(by), cell: func(s *sum) string { return orDash(s.key) }},
		{head: "JOBS", right: true, cell: number(func(s *sum) int { return s.jobs })},
		{head: "SUCCEEDED", wide: true, right: true, cell: number(func(s *sum) int { return s.succeeded })},
		{head: "FAILED", right: true, cell: number(func(s *sum) int { return s.failed })},
		{head: "CANCELLED", right: true, cell: number(func(s *sum) int { return s.cancelled })},
		{head: "TIMED-OUT", right: true, cell: number(func(s *sum) int { return s.timedOut })},
		{head: "GPU-HOURS", right: true, cell: func(s *sum) string { return hours(s.milliGPUMs) }},
		{head: "RUNTIME", wide: true, right: true, cell: func(s *sum) string { return messages.Span(s.ranMs) }},
		{head: "WAIT-MEAN", right: true, cell: wait((*sum).meanMs)},
		{head: "WAIT-P95", right: true, cell: wait((*sum).p95Ms)},
	}
}

func (s *Sums) csv(w io.Writer, style Style, all []*sum) error {
	out := csv.NewWriter(w)
	rows := [][]string{{s.by, "jobs", "succeeded", "failed", "cancelled", "timed_out", "started", "runtime_seconds",
		"gpu_seconds", "wait_mean_seconds", "wait_p95_seconds"}}
	if style.NoHeaders {
		rows = nil
	}
	for _, g := range all {
		o := g.object()
		row := []string{o.Key}
		for _, n := range []int{o.Jobs, o.Succeeded, o.Failed, o.Cancelled, o.TimedOut, o.Started} {
			row = append(row, fmt.Sprint(n))
		}
		for _, f := range []float64{o.RunSeconds, o.GPUSeconds, o.WaitMeanSeconds, o.WaitP95Seconds} {
			row = append(row, fmt.Sprintf("%.3f", f))
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}
