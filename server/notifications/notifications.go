// Package notifications sends notifications about events in the cluster: a job has finished, a node is
// unschedulable, or a start guarantee was missed. An administrator's rules select the events and the receivers. No
// job or scheduler waits for a receiver: if a receiver does not answer, later notifications are dropped.
package notifications

import (
	"context"
	"slices"
)

// This file defines the notifications and the rules.

// The kinds of events.
const (
	JobOver       = "job-finished"
	MachineClosed = "node-unschedulable"
	MachineOpen   = "node-schedulable"
	PromiseBroken = "start-guarantee-broken"
)

// Kinds lists all kinds.
var Kinds = []string{JobOver, MachineClosed, MachineOpen, PromiseBroken}

// Notification is one notification in its JSON form.
type Notification struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// ID stays the same if a notification is sent again, after a restart or by another leader.
	ID      string        `json:"id"`
	Rule    string        `json:"rule"`
	Event   string        `json:"event"`
	Cluster string        `json:"cluster"`
	AtMs    int64         `json:"atUnixMs"`
	Text    string        `json:"text"`
	Job     *AboutJob     `json:"job,omitempty"`
	Machine *AboutMachine `json:"node,omitempty"`
}

// AboutJob describes the job of a notification. It omits command, environment and output, because they belong to
// the job's owner and a notification leaves the cluster.
type AboutJob struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Owner    string `json:"owner"`
	Queue    string `json:"queue,omitempty"`
	Phase    string `json:"phase"`
	Outcome  string `json:"outcome,omitempty"`
	ExitCode int32  `json:"exitCode"`
	Runs     int32  `json:"attemptCount"`
}

// AboutMachine describes the node of a notification.
type AboutMachine struct {
	ID     string `json:"id"`
	Phase  string `json:"phase"`
	Closed string `json:"unschedulable,omitempty"`
}

// Rule selects notifications for one receiver. An empty list selects all.
type Rule struct {
	Name     string
	On       []string // of Kinds
	Outcomes []string // phases of finished jobs
	Queues   []string // of jobs
	Owners   []string
	// Tell sends a notification, or returns why it could not.
	Tell func(ctx context.Context, n *Notification) error
}

// wants reports whether a rule selects a notification.
func (r *Rule) wants(n *Notification) bool {
	if !slices.Contains(r.On, n.Event) {
		return false
	}
	if n.Job == nil {
		return true
	}
	within := func(all []string, one string) bool { return len(all) == 0 || slices.Contains(all, one) }
	return within(r.Queues, n.Job.Queue) && within(r.Owners, n.Job.Owner) &&
		(n.Event != JobOver || within(r.Outcomes, n.Job.Phase))
}
