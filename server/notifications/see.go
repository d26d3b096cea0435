package notifications

import (
	"fmt"
	"maps"

	"github.com/yi-json/synapse/messages"
)

// This file owns how a notification comes of what a watch tells, each thing once. A watch begins with all that there
// is, so what was so before is no news: of machines and promises what the first watch of this process found, of jobs
// what was over before the time up to which somebody was told.

// horizon (ms) is how much later than another job's one job's end may be heard: what ended before is known to be told.
const horizon = 10 * 60_000

// sight has what has been seen.
type sight struct {
	began    bool             // what there was at first has come
	until    int64            // the latest end of a job that was told
	since    int64            // jobs that ended before are no news
	told     map[string]int64 // jobs that ended since, and when
	closed   map[string]string
	promises map[string]slipping
}

// slipping counts how often the promise to a job's next run has slipped.
type slipping struct{ run, slips int32 }

func newSight(since int64, told map[string]int64) *sight {
	s := &sight{since: since, until: since, told: map[string]int64{}, closed: map[string]string{},
		promises: map[string]slipping{}}
	for id, at := range told {
		s.told[id], s.until = at, max(s.until, at)
	}
	return s
}

// take takes what a watch tells, and answers what of it is news; nil: nothing is.
func (s *sight) take(e *messages.Event) []*Notification {
	switch {
	case e.GetSynced():
		s.began = true
	case e.GetJob() != nil:
		return s.job(e.GetJob())
	case e.GetNode() != nil:
		return s.machine(e)
	}
	return nil
}

func (s *sight) job(j *messages.JobStatus) []*Notification {
	rec := j.GetRecord()
	if rec.GetSpec().GetElement() != nil { // its array is told of as a whole
		return nil
	}
	told := &AboutJob{
		ID: rec.GetId(), Name: rec.GetSpec().Called(), Owner: rec.Whose(), Queue: rec.GetSpec().GetQueue(),
		Phase: j.GetPhase(), Outcome: rec.GetOutcome(), ExitCode: rec.GetExitCode(), Runs: rec.GetRuns(),
	}
	named := fmt.Sprintf("job %s (%s) of %s", told.ID, told.Name, told.Owner)
	if rec.GetState().Terminal() {
		delete(s.promises, told.ID)
		if !s.ends(told.ID, rec.GetFinishedUnixMs()) {
			return nil
		}
		told.Phase = messages.EndPhase(rec.GetState())
		text := named + " " + told.Phase
		if told.Outcome != "" && told.Outcome != told.Phase {
			text += ": " + told.Outcome
		}
		return []*Notification{{ID: JobOver + "/" + told.ID, Event: JobOver, Text: text, Job: told}}
	}
	was, had := s.promises[told.ID]
	p := rec.GetPromise()
	if p == nil {
		delete(s.promises, told.ID)
		return nil
	}
	now := slipping{p.GetRun(), p.GetSlips()}
	s.promises[told.ID] = now
	if !s.began || !had || was.run != now.run || now.slips <= was.slips {
		return nil
	}
	return []*Notification{{
		ID:    fmt.Sprintf("%s/%s/%d/%d", PromiseBroken, told.ID, now.run, now.slips),
		Event: PromiseBroken, Job: told,
		Text: fmt.Sprintf("%s had to wait longer than promised, %d times now", named, now.slips),
	}}
}

// ends reports whether it is news that a job has ended.
func (s *sight) ends(id string, at int64) bool {
	if _, told := s.told[id]; told || at < s.since {
		return false
	}
	s.told[id], s.until = at, max(s.until, at)
	if since := s.until - horizon; since > s.since+horizon/10 {
		s.since = since
		maps.DeleteFunc(s.told, func(_ string, at int64) bool { return at < since })
	}
	return true
}

func (s *sight) machine(e *messages.Event) []*Notification {
	id, why := e.GetNode().GetRecord().GetId(), e.GetNode().GetClosed()
	if e.GetHidden() {
		delete(s.closed, id)
		return nil
	}
	if why == "" && e.GetNode().GetPhase() == messages.NodeDead {
		why = messages.NodeDead
	}
	was := s.closed[id] // of one that was not known: open
	s.closed[id] = why
	if !s.began || (was == "") == (why == "") { // other words for the same are no news
		return nil
	}
	n := &Notification{Event: MachineClosed, Text: fmt.Sprintf("machine %s is closed: %s", id, why),
		Machine: &AboutMachine{ID: id, Phase: e.GetNode().GetPhase(), Closed: why}}
	if why == "" {
		n.Event, n.Text = MachineOpen, fmt.Sprintf("machine %s is open again", id)
	}
	n.ID = fmt.Sprintf("%s/%s/%d", n.Event, id, e.GetAtUnixMs())
	return []*Notification{n}
}
