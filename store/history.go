package store

import (
	"math"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the questions about the past, the same for every database: which jobs fit, and where a page ends. A
// page ends early rather than late: a reader of a million jobs holds one page of them, and its snapshot of the database
// is over with the page.

// Past asks for jobs that are over, the newest first. An empty field fits any job.
type Past struct {
	Before             Position // only those behind this place; the zero: from the newest on
	SinceUnixMs        int64    // finished then or later
	Owner, Queue, Name string
	States             []messages.JobState
	Labels             []*messages.Label // all of these
	Look               int               // look at no more jobs than this, whether they fit or not
}

// PastJob is one job that is over, with its attempts in the order of their tokens.
type PastJob struct {
	Job      *messages.JobRecord
	Attempts []*messages.AttemptRecord
}

// Page is a part of the answer.
type Page struct {
	Jobs    []PastJob
	Damaged []actors.Damaged // which cannot be read, and are left out
	Looked  int              // how many jobs were looked at
	Next    Position         // where to go on; the zero: there are no more
}

// PageBytes bounds the size of the records of one page. The first job always has room, or a page would never get past
// it.
const PageBytes = 8 << 20

// Newest stands behind every job: the meaning of the zero of Before.
var Newest = Position{FinishedUnixMs: math.MaxInt64}

// From is where the page begins, the zero resolved.
func (p *Past) From() Position {
	if p.Before == (Position{}) {
		return Newest
	}
	return p.Before
}

// StateMask is one bit for each state that fits; 0: any does.
func (p *Past) StateMask() int64 {
	var mask int64
	for _, s := range p.States {
		if s > 0 && s < 63 {
			mask |= 1 << s
		}
	}
	return mask
}

// fits reports whether a job that is over and stands in the span is one of those
// asked for.
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

// Gathering is a page in the making. A database tells it of every job that it
// looked at, the newest first; then it reads the attempts of Jobs, in that order.
type Gathering struct {
	past  *Past
	page  Page
	last  Position // that was looked at
	bytes int
	full  bool
	bad   map[int]bool // Jobs with an attempt that cannot be read
}

// Gather begins a page.
func (p *Past) Gather() *Gathering { return &Gathering{past: p} }

// Look counts one job, and reports whether to go on. The job is nil where the columns have shown already that it does
// not fit.
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

// Read is Look for a record, or for one that could not be read.
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

// Room is how many bytes the attempts may still have; there is always some for those of the first job.
func (g *Gathering) Room() int { return max(PageBytes-g.bytes, 1) }

// Takes reports whether the attempts of Jobs[i] have room.
func (g *Gathering) Takes(i int) bool { return i == 0 || g.bytes < PageBytes }

// Attempt adds the next attempt of Jobs[i]. With one missing, the account would be that of another job.
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

// Page ends the gathering. The first of Jobs have their attempts; the others wait for the next page.
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
