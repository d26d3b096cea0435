package show

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file owns how queues look. A queue is what the jobs in it add up to:
// nothing else is known of one.

// queueObj is one queue, as programs read it too.
type queueObj struct {
	APIVersion  string  `json:"apiVersion"`
	Kind        string  `json:"kind"`
	Name        string  `json:"name"`
	Waiting     int     `json:"waiting"`
	Held        int     `json:"held"`
	Running     int     `json:"running"` // or about to, or about to end
	GPUsWaiting float64 `json:"gpusWaiting"`
	GPUsRunning float64 `json:"gpusRunning"`

	waiting, running int64 // the same in thousandths
	oldest           int64 // when the job was submitted that waits longest
	now              int64
}

var queueColumns = []column[*queueObj]{
	{head: "QUEUE", cell: func(q *queueObj) string { return orDash(q.Name) }},
	{head: "WAITING", right: true, cell: func(q *queueObj) string { return fmt.Sprint(q.Waiting) }},
	{head: "HELD", right: true, cell: func(q *queueObj) string { return fmt.Sprint(q.Held) }},
	{head: "RUNNING", right: true, cell: func(q *queueObj) string { return fmt.Sprint(q.Running) }},
	{head: "GPUS WAITED FOR", right: true, cell: func(q *queueObj) string { return milli(q.waiting) }},
	{head: "GPUS IN USE", right: true, cell: func(q *queueObj) string { return milli(q.running) }},
	{head: "LONGEST WAIT", right: true, cell: func(q *queueObj) string { return age(q.oldest, q.now) }},
}

// Queues writes what these jobs, none of which is over, add up to by queue.
func Queues(w io.Writer, s Style, jobs []*messages.JobStatus) error {
	all := map[string]*queueObj{}
	for _, j := range jobs {
		name := j.GetRecord().GetSpec().GetQueue()
		if all[name] == nil {
			all[name] = &queueObj{APIVersion: "synapse/v1", Kind: "Queue", Name: name, now: s.NowMs}
		}
		all[name].add(j)
	}
	var list []*queueObj
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q := all[name]
		q.GPUsWaiting, q.GPUsRunning = float64(q.waiting)/1000, float64(q.running)/1000
		list = append(list, q)
	}
	return several(w, s, "QueueList", queueColumns, list,
		func(q *queueObj) string { return orDash(q.Name) },
		func(q *queueObj) any { return q },
		func(q *queueObj) *queueObj { return q })
}

// add counts a job: by whether an attempt of it is committed, since one that is
// only being tried holds nothing yet.
func (q *queueObj) add(j *messages.JobStatus) {
	gpus := messages.Asked(j.GetRecord().GetSpec(), (*messages.Resources).GetMilliGpu)
	switch {
	case j.GetRecord().GetState() == messages.JobState_JOB_STATE_ACTIVE:
		q.Running++
		q.running += gpus
		return
	case j.GetRecord().GetHold() != nil:
		q.Held++
		return
	}
	q.Waiting++
	q.waiting += gpus
	if at := j.GetRecord().GetSubmittedUnixMs(); q.oldest == 0 || at < q.oldest {
		q.oldest = at
	}
}
