package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file counts what the checkers do not check. An invariant with exceptions lists them in one place, its clauses.
// Its checker consults the clauses before it skips a job. So each exception is counted, in job-seconds. A clause counts
// the virtual time for which the rule applies to a job, and the time for which the checker skips that job. This file
// must never decide what a checker does.

// clause is one statement of an invariant about jobs, with its exceptions.
type clause struct {
	name string // empty: the complete invariant
	// about reports whether the rule applies to the job now. Cases that the text of the rule leaves out are no
	// exceptions.
	about func(*World, *jobPage) bool
	// away returns why the checker does not judge the job now. An empty result means that it does.
	away func(*World, *jobPage) string
}

// excepting is an invariant that has exceptions.
type excepting interface {
	Invariant
	clauses() []clause
}

// Gap holds how much of one clause of an invariant went unchecked, in one run or in several.
type Gap struct {
	Name      string
	Judged    time.Duration // sum over all jobs
	Unchecked map[string]time.Duration
}

// gaps counts the gaps of one run. A nil gaps counts nothing.
type gaps struct {
	clauses []clause
	found   []*Gap
}

func newGaps(checks []Invariant) *gaps {
	g := &gaps{}
	for _, inv := range checks {
		e, is := inv.(excepting)
		if !is {
			continue
		}
		for _, p := range e.clauses() {
			name := inv.about().name
			if p.name != "" {
				name += ": " + p.name
			}
			g.clauses = append(g.clauses, p)
			g.found = append(g.found, &Gap{Name: name, Unchecked: map[string]time.Duration{}})
		}
	}
	return g
}

// count adds the time since the last look to each clause, for each job that has not finished.
func (g *gaps) count(w *World, passed time.Duration) {
	if g == nil {
		return
	}
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if page == nil || page.record.State.Terminal() {
			continue
		}
		for i, p := range g.clauses {
			if !p.about(w, page) {
				continue
			}
			if why := p.away(w, page); why != "" {
				g.found[i].Unchecked[why] += passed
			} else {
				g.found[i].Judged += passed
			}
		}
	}
}

// all returns the gaps that were found.
func (g *gaps) all() (all []Gap) {
	if g != nil {
		for _, one := range g.found {
			all = append(all, *one)
		}
	}
	return all
}

// GapsOf adds up the gaps of several runs.
func GapsOf(results []Result) (sum []Gap) {
	for _, r := range results {
		for i, g := range r.Gaps {
			if i == len(sum) {
				sum = append(sum, Gap{Name: g.Name, Unchecked: map[string]time.Duration{}})
			}
			sum[i].Judged += g.Judged
			for why, d := range g.Unchecked { //order: only added
				sum[i].Unchecked[why] += d
			}
		}
	}
	return sum
}

// Lost returns the total unchecked time over all reasons.
func (g Gap) Lost() (sum time.Duration) {
	for _, d := range g.Unchecked { //order: only added
		sum += d
	}
	return sum
}

// Reasons returns the reasons, the one with the most time first.
func (g Gap) Reasons() []string {
	all := sortedKeys(g.Unchecked)
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(g.Unchecked[b], g.Unchecked[a]) })
	return all
}

// isActive reports whether a job has a current attempt.
func isActive(_ *World, page *jobPage) bool {
	return page.record.State == messages.JobState_JOB_STATE_ACTIVE
}

// isShared reports whether the cluster uses queues.
func isShared(w *World, _ *jobPage) bool { return w.books.queues != nil }
