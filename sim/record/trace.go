// Package record defines recorded workloads, orders of replays, and the results of replays. It does not import the
// simulator, because one program orders a replay and another runs it.
package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// This file defines a workload, and how a part of it is selected.

// Job is one job of a record.
type Job struct {
	Submit   time.Duration // since a moment that all jobs of the record share
	Duration time.Duration // run time
	Limit    time.Duration // requested time limit; 0: unknown
	GPUs     int           // total of the gang
	Tasks    int           // equal tasks that share the GPUs evenly; 0: the GPUs are a total on whole nodes
	Priority int32
	User     string
	Queue    string
	Line     int // line in the file

	Waited    time.Duration // waiting time in the real cluster
	HasWaited bool          // Waited is known
}

// BadRow is a row that cannot be replayed.
type BadRow struct {
	Line int
	Why  string
}

// String returns the row and its error.
func (b BadRow) String() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// Aside counts valid rows that are not replayed for one reason, such as jobs without GPUs.
type Aside struct {
	Why  string
	Rows int
}

// Trace is a workload.
type Trace struct {
	Jobs  []Job
	Bad   []BadRow
	Aside []Aside
}

// setAside counts a valid row that is not replayed.
func (t *Trace) setAside(why string) {
	i := slices.IndexFunc(t.Aside, func(a Aside) bool { return a.Why == why })
	if i < 0 {
		i, t.Aside = len(t.Aside), append(t.Aside, Aside{Why: why})
	}
	t.Aside[i].Rows++
}

// badMost is the share of bad rows above which a record is rejected.
const badMost = 0.01

// checked rejects a record with too many bad rows.
func (t *Trace) checked() (*Trace, error) {
	rows := len(t.Jobs) + len(t.Bad)
	for _, a := range t.Aside {
		rows += a.Rows
	}
	switch {
	case rows == 0:
		return nil, fmt.Errorf("the record has a header but no rows")
	case float64(len(t.Bad)) > badMost*float64(rows):
		return nil, fmt.Errorf("%d of %d rows are invalid, for example %v", len(t.Bad), rows, t.Bad[0])
	}
	return t, nil
}

// Cut selects the part of a workload to replay, and how fast it arrives.
type Cut struct {
	First, Rows int     // rows of the record by their submit time; 0 rows: all
	Timescale   float64 // scale of arrival times; 0: choose it for Load
	Load        float64 // offered load if Timescale is 0
}

// Take cuts a workload for a cluster of this many GPUs. Times begin at the first job.
func (t *Trace) Take(c Cut, gpus int) ([]Job, error) {
	jobs := slices.Clone(t.Jobs)
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	first := min(c.First, len(jobs))
	jobs = jobs[first:]
	if c.Rows > 0 {
		jobs = jobs[:min(c.Rows, len(jobs))]
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("no rows are left: the record has %d rows, but the first requested row is %d",
			len(t.Jobs), c.First)
	}
	began := jobs[0].Submit
	scale := c.Timescale
	if scale == 0 {
		scale = stretch(jobs, c.Load, gpus)
	}
	for i := range jobs {
		jobs[i].Submit -= began
		if scale != 1 {
			jobs[i].Submit = time.Duration(jobs[i].Submit.Seconds() * scale * 1e9)
			jobs[i].HasWaited = false // the waiting time was measured under another load
		}
	}
	return jobs, nil
}

// stretch returns the scale at which jobs offer a load.
func stretch(jobs []Job, load float64, gpus int) float64 {
	var work float64
	for _, j := range jobs {
		work += j.Duration.Seconds() * float64(j.GPUs)
	}
	span := (jobs[len(jobs)-1].Submit - jobs[0].Submit).Seconds()
	if span == 0 || load <= 0 {
		return 1
	}
	return work / (load * float64(gpus)) / span
}
