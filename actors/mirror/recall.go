package mirror

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns what a new leader's readers see of jobs that ended before it led. Nothing happens to such a job any
// more, so it is shown without an event: a watcher of the last changes must not see its end as a new one.

func (m *Mirror) onJobRecalled(e actors.Ended) {
	id := e.Job.GetId()
	if _, ok := m.jobs.get(id); ok { // by its own actor, which knows better
		return
	}
	s := &messages.JobStatus{Record: e.Job, Phase: messages.EndPhase(e.Job.GetState()), Reason: e.Job.GetOutcome(),
		Attempt: e.Attempt, Counts: e.Job.EndedCounts()}
	if m.finished.wouldBeOver(s, &m.p.Constants) { // by newer ones: those come first
		return
	}
	told := &messages.Event{Seq: m.watch.seq, AtUnixMs: e.Job.GetFinishedUnixMs(), Text: jobWords(s), Job: listed(s)}
	m.jobs.put(id, shownJob{JobStatus: s, told: told})
	m.finished.add(finishedKey(s), s)
}
