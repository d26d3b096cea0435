package mirror

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// ended returns a finished job as a store returns it to a new leader.
func ended(id string, finishedMs int64) JobRecalled {
	return JobRecalled{
		Job:     statusOf(id, "alice", "", overAt(finishedMs)).Record,
		Attempt: &messages.AttemptRecord{Job: id, Run: 1, Places: []*messages.Place{{Node: "n1"}}},
	}
}

// TestMirrorRecalls checks that recalled jobs are shown with their stored state and cause no event.
func TestMirrorRecalls(t *testing.T) {
	a := newAudience()
	a.says("early", &messages.Watch{Jobs: true})
	a.says("scheduler", JobShown{statusOf("back", "alice", "settling", overAt(9), func(s *messages.JobStatus) {
		s.Debts = []string{"n7"}
	})})
	a.hears(t, "early", "1 job back settling; the end is not confirmed by n7")
	a.says("scheduler", ended("back", 9))
	a.says("scheduler", ended("f2", 20))
	a.says("scheduler", ended("f1", 10))
	a.hears(t, "early")
	if got := fmt.Sprint(listAll(t, a.Mirror, &messages.ListJobs{})); got != "[[back f1 f2]]" {
		t.Error(got)
	}
	one := ask(a.Mirror, &messages.GetJob{Job: "f2"}).(*messages.GetJobReply).Job
	if one.GetPhase() != "succeeded" || one.GetAttempt().GetRun() != 1 || len(one.GetAttempt().GetPlaces()) != 1 {
		t.Errorf("it is shown as %v", one)
	}
	if debts := ask(a.Mirror, &messages.GetJob{Job: "back"}).(*messages.GetJobReply).Job.GetDebts(); len(debts) != 1 {
		t.Errorf("the status from its own actor is lost: %v", debts)
	}
	// A watcher that asks for the present state receives it, with the job's own times.
	a.says("late", &messages.Watch{Jobs: true, Present: true, Ids: []string{"f1"}})
	if told := a.told["late"]; len(told) != 2 || told[0].AtUnixMs != 10 || told[0].GetJob().GetRecord().GetId() != "f1" {
		t.Errorf("events are %v", told)
	}
}

func TestMirrorRecallsNoMoreThanItShows(t *testing.T) {
	m := mirrorOf(func(c *actors.Constants) { c.MirrorFinished = 2 })
	for i := int64(5); i > 0; i-- {
		ask(m, ended(fmt.Sprint("f", i), i))
	}
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[f4 f5]]" {
		t.Error(got)
	}
	ask(m, JobShown{statusOf("f6", "alice", "succeeded", overAt(6))})
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[f5 f6]]" {
		t.Error(got)
	}
}
