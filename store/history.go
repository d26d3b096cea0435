package store

import (
	"math"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns queries about finished jobs, the same for every database: which jobs match, and where a page ends.
// Pages are limited in size. A reader of a million jobs holds one page in memory, and its snapshot of the database ends
// with the page.

// Past is a query for finished jobs, newest first. An empty field matches every job.
type Past struct {
	Before             Position // only jobs after this position; zero: from the newest on
	SinceUnixMs        int64    // finished then or later
	Owner, Queue, Name string
	States             []messages.JobState
	Labels             []*messages.Label // all of these
	Look               int               // maximum number of jobs to examine, including those that do not match
}

// PastJob is one finished job, with its attempts in the order of their tokens.
type PastJob struct {
	Job      *messages.JobRecord
	Attempts []*messages.AttemptRecord
}

// Page is a part of the answer.
type Page struct {
	Jobs    []PastJob
	Damaged []actors.Damaged // unreadable and omitted
	Looked  int              // number of examined jobs
	Next    Position         // start of the next page; zero: there are no more jobs
}

// PageBytes limits the size of the records of one page. The first job always fits, or a page could never advance past
// it.
const PageBytes = 8 << 20

// Newest is the position after all jobs. It is the meaning of a zero Before.
var Newest = Position{FinishedUnixMs: math.MaxInt64}

// From returns the position at which the page begins.
func (p *Past) From() Position {
	if p.Before == (Position{}) {
		return Newest
	}
	return p.Before
}

// StateMask returns one bit for each matching state; 0 matches every state.
func (p *Past) StateMask() int64 {
	var mask int64
	for _, s := range p.States {
		if s > 0 && s < 63 {
			mask |= 1 << s
		}
	}
	return mask
}

// fits reports whether a finished job within the time span matches the query.
func (p *Past) fits(j *messages.JobRecord) bool {
	spec := j.GetSpec()
	switch {
	case p.Owner != "" && j.GetOwner().GetName() != p.Owner,
		p.Queue != "" && spec.GetQueue() != p.Queue,
		p.Name != "" && spec.GetName() != p.Name && spec.GetTitle() != p.Name,
		len(p.States) > 0 && !slices.Contains(p.States, j.GetState()):
		return false
	}
	for _, want := range p.Labels {
		if !slices.ContainsFunc(spec.GetLabels(), func(l *messages.Label) bool {
			return l.GetKey() == want.GetKey() && l.GetValue() == want.GetValue()
		}) {
			return false
		}
	}
	return true
}

// Gathering is a page under construction. A database passes every examined job to it, newest first. Then it reads the
// attempts of Jobs, in that order.
type Gathering struct {
	past  *Past
	page  Page
	last  Position // the last examined one
	bytes int
	full  bool
	bad   map[int]bool // Jobs with an unreadable attempt
}

// Gather starts a page.
func (p *Past) Gather() *Gathering { return &Gathering{past: p} }

// Look counts one job, and reports whether to continue. The job is nil if the columns already show that it does not
// match.
func (g *Gathering) Look(at Position, job *messages.JobRecord, bytes int) (more bool) {
	if g.full = g.bytes > 0 && g.bytes+bytes > PageBytes; g.full {
		return false
	}
	g.page.Looked++
	g.last = at
	if job != nil && g.past.fits(job) {
		g.bytes += bytes
		g.page.Jobs = append(g.page.Jobs, PastJob{Job: job})
	}
	return g.page.Looked < g.past.Look
}

// Read is like Look, for a record that may be unreadable.
func (g *Gathering) Read(at Position, job *messages.JobRecord, err error, bytes int) (more bool) {
	if err != nil {
		g.page.Damaged = append(g.page.Damaged, actors.Damaged{Job: at.Job, What: whatIsWrong(err), Over: true})
		return g.Look(at, nil, 0)
	}
	return g.Look(at, job, bytes)
}

// Jobs returns the jobs that match.
func (g *Gathering) Jobs() []topology.JobID {
	ids := make([]topology.JobID, len(g.page.Jobs))
	for i := range g.page.Jobs {
		ids[i] = topology.JobID(g.page.Jobs[i].Job.Id)
	}
	return ids
}

// Room returns how many bytes the attempts may still have. It is never zero, so the first job's attempts always fit.
func (g *Gathering) Room() int { return max(PageBytes-g.bytes, 1) }

// Takes reports whether the attempts of Jobs[i] fit.
func (g *Gathering) Takes(i int) bool { return i == 0 || g.bytes < PageBytes }

// Attempt adds the next attempt of Jobs[i]. If one is unreadable, the job is omitted, because its usage would be wrong.
func (g *Gathering) Attempt(i int, attempt *messages.AttemptRecord, err error, bytes int) {
	job := &g.page.Jobs[i]
	if err != nil && !g.bad[i] {
		if g.bad == nil {
			g.bad = map[int]bool{}
		}
		g.bad[i] = true
		g.page.Damaged = append(g.page.Damaged, actors.Damaged{
			Job: topology.JobID(job.Job.Id), Owner: job.Job.Owner.GetName(), What: whatIsWrong(err), Over: true,
		})
	}
	job.Attempts = append(job.Attempts, attempt)
	g.bytes += bytes
}

// Page ends the gathering. The first whole Jobs have their attempts. The others go into the next page.
func (g *Gathering) Page(whole int) Page {
	switch {
	case whole < len(g.page.Jobs):
		g.page.Jobs = g.page.Jobs[:whole]
		g.page.Next = PositionOf(g.page.Jobs[whole-1].Job)
	case g.full || g.page.Looked > 0 && g.page.Looked >= g.past.Look:
		g.page.Next = g.last
	}
	if len(g.bad) > 0 {
		var kept []PastJob
		for i, job := range g.page.Jobs {
			if !g.bad[i] {
				kept = append(kept, job)
			}
		}
		g.page.Jobs = kept
	}
	return g.page
}
