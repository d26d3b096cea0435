package show

import (
	"fmt"
	"io"

	"github.com/yi-json/synapse/messages"
)

// This file prints queues without a configuration. Their values are sums over their jobs.

// queueObj holds one queue, also for programs.
type queueObj struct {
	APIVersion  string  `json:"apiVersion"`
	Kind        string  `json:"kind"`
	Name        string  `json:"name"`
	Waiting     int64   `json:"waiting"`
	Held        int64   `json:"held"`
	Running     int64   `json:"running"` // including jobs whose nodes are being reserved
	GPUsWaiting float64 `json:"gpusWaiting"`
	GPUsRunning float64 `json:"gpusRunning"`

	waiting, running int64 // the same in thousandths
	oldest           int64 // submit time of the job that has waited longest
	now              int64
}

var queueColumns = []column[*queueObj]{
	{head: "QUEUE", cell: func(q *queueObj) string { return orDash(q.Name) }},
	{head: "WAITING", right: true, cell: func(q *queueObj) string { return fmt.Sprint(q.Waiting) }},
	{head: "HELD", drop: 1, right: true, cell: func(q *queueObj) string { return fmt.Sprint(q.Held) }},
	{head: "RUNNING", right: true, cell: func(q *queueObj) string { return fmt.Sprint(q.Running) }},
	{head: "GPUS REQUESTED", drop: 2, right: true, cell: func(q *queueObj) string { return milli(q.waiting) }},
	{head: "GPUS IN USE", right: true, cell: func(q *queueObj) string { return milli(q.running) }},
	{head: "LONGEST WAIT", right: true, cell: func(q *queueObj) string { return age(q.oldest, q.now) }},
}

// Queues prints the usage of queues without a configuration.
func Queues(w io.Writer, s Style, usage []*messages.QueueUsage) error {
	var list []*queueObj
	for _, u := range usage {
		q := &queueObj{
			APIVersion: "synapse/v1", Kind: "Queue", Name: u.GetQueue(), now: s.NowMs, oldest: u.GetOldestUnixMs(),
			Waiting: u.GetWaiting(), Held: u.GetHeld(), Running: u.GetRunning(),
			waiting: u.GetWanted().GetMilliGpu(), running: u.GetInUse().GetMilliGpu(),
		}
		q.GPUsWaiting, q.GPUsRunning = float64(q.waiting)/1000, float64(q.running)/1000
		list = append(list, q)
	}
	return several(w, s, "QueueList", queueColumns, list,
		func(q *queueObj) string { return orDash(q.Name) },
		func(q *queueObj) any { return q },
		func(q *queueObj) *queueObj { return q })
}
