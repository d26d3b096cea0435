package notifications

import (
	"fmt"
	"maps"

	"github.com/yi-json/synapse/messages"
)

// This file derives notifications from the events of a watch, each once. A watch starts with the complete state,
// and old facts are not news. For nodes and start guarantees, facts in the first watch of this process are old. For
// jobs, ends before the time in the saved note are old.

// horizon is the limit in ms for the delay of one job's end compared with other jobs. Older ends were already
// reported.
const horizon = 10 * 60_000

// sight holds the known state.
type sight struct {
	began    bool             // the initial state is complete
	until    int64            // latest reported end of a job
	since    int64            // jobs that ended earlier are not reported
	told     map[string]int64 // reported jobs that ended later, with their ends
	closed   map[string]string
	promises map[string]slipping
}

// slipping counts how often the start guarantee of a job's next attempt was missed.
type slipping struct{ run, slips int32 }

func newSight(since int64, told map[string]int64) *sight {
	s := &sight{since: since, until: since, told: map[string]int64{}, closed: map[string]string{},
		promises: map[string]slipping{}}
	for id, at := range told {
		s.told[id], s.until = at, max(s.until, at)
	}
	return s
}

// take processes an event of a watch and returns the notifications for it, if any.
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
	if rec.GetSpec().GetElement() != nil { // only its array is reported, as a whole
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
		Text: fmt.Sprintf("%s has missed its start guarantee %d times", named, now.slips),
	}}
}

// ends reports whether the end of a job has not been reported yet.
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
	was := s.closed[id] // an unknown node counts as schedulable
	s.closed[id] = why
	if !s.began || (was == "") == (why == "") { // a new text for the same state is not news
		return nil
	}
	n := &Notification{Event: MachineClosed, Text: fmt.Sprintf("node %s is unschedulable: %s", id, why),
		Machine: &AboutMachine{ID: id, Phase: e.GetNode().GetPhase(), Closed: why}}
	if why == "" {
		n.Event, n.Text = MachineOpen, fmt.Sprintf("node %s is schedulable again", id)
	}
	n.ID = fmt.Sprintf("%s/%s/%d", n.Event, id, e.GetAtUnixMs())
	return []*Notification{n}
}
