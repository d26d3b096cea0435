package mirror

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns finished jobs that a new leader recalls from the store. Such a job causes no event, because a watcher
// would mistake it for a job that has just ended.

func (m *Mirror) onJobRecalled(e actors.Ended) {
	id := e.Job.GetId()
	if _, ok := m.jobs.get(id); ok { // its Job actor has already sent a newer status
		return
	}
	s := &messages.JobStatus{Record: e.Job, Phase: messages.EndPhase(e.Job.GetState()), Reason: e.Job.GetOutcome(),
		Attempt: e.Attempt, Counts: e.Job.EndedCounts()}
	if m.finished.wouldBeOver(s, &m.p.Constants) { // newer jobs have taken the space
		return
	}
	told := &messages.Event{Seq: m.watch.seq, AtUnixMs: e.Job.GetFinishedUnixMs(), Text: jobWords(s), Job: listed(s)}
	m.jobs.put(id, shownJob{JobStatus: s, told: told})
	m.finished.add(finishedKey(s), s)
}
