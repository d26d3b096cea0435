// Package record holds what a recorded workload is, how a part of it is ordered to be
// replayed, and the figures that are found. It knows nothing of the simulator: one program orders a replay and another
// runs it.
package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// This file owns what a workload is, and how a part of it is taken.

// Job is one job of a record.
type Job struct {
	Submit   time.Duration // since any moment that all jobs of the record share
	Duration time.Duration // that it ran
	Limit    time.Duration // that it asked for; 0: none is known
	GPUs     int           // of the whole gang
	Tasks    int           // that are alike and share the GPUs evenly; 0: the GPUs are a total, on whole machines
	Priority int32
	User     string
	Queue    string
	Line     int // of the file

	Waited    time.Duration // before it began, where it really ran
	HasWaited bool          // Waited is known
}

// BadRow is a row that says nothing that can be replayed.
type BadRow struct {
	Line int
	Why  string
}

// String is the row and what is wrong with it.
func (b BadRow) String() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// Aside are rows that are right and yet none to replay, such as jobs without GPUs.
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

// setAside counts a row that is right and yet none to replay.
func (t *Trace) setAside(why string) {
	i := slices.IndexFunc(t.Aside, func(a Aside) bool { return a.Why == why })
	if i < 0 {
		i, t.Aside = len(t.Aside), append(t.Aside, Aside{Why: why})
	}
	t.Aside[i].Rows++
}

// badMost is the share of bad rows above which a record is refused.
const badMost = 0.01

// checked refuses a record of which too much is bad.
func (t *Trace) checked() (*Trace, error) {
	rows := len(t.Jobs) + len(t.Bad)
	for _, a := range t.Aside {
		rows += a.Rows
	}
	switch {
	case rows == 0:
		return nil, fmt.Errorf("it has a header and no rows")
	case float64(len(t.Bad)) > badMost*float64(rows):
		return nil, fmt.Errorf("%d of %d rows are bad, as %v", len(t.Bad), rows, t.Bad[0])
	}
	return t, nil
}

// Cut is which part of a workload is replayed, and how fast it arrives.
type Cut struct {
	First, Rows int     // rows of the record by their submit time; 0 rows: all
	Timescale   float64 // by which arrivals are stretched; 0: such that they bring Load
	Load        float64 // offered load, where Timescale is 0
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
		return nil, fmt.Errorf("no rows are left: the record has %d, and the first that is wanted is %d",
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
			jobs[i].HasWaited = false // that was under another load
		}
	}
	return jobs, nil
}

// stretch is the scale at which jobs offer a load.
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
