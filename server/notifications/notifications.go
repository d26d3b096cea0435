// Package notifications tells others what has happened in the cluster: that a job is over, that a machine takes nothing
// new, that a promise was not kept. An administrator's rules say what is told to whom. Nothing waits for it: if nobody
// takes what a rule tells, what comes meanwhile is lost, and neither a job nor a scheduler is kept up.
package notifications

import (
	"context"
	"slices"
)

// This file owns what is told, and to whom.

// The kinds of things that happen.
const (
	JobOver       = "job-finished"
	MachineClosed = "node-unschedulable"
	MachineOpen   = "node-schedulable"
	PromiseBroken = "start-guarantee-broken"
)

// Kinds lists all of them.
var Kinds = []string{JobOver, MachineClosed, MachineOpen, PromiseBroken}

// Notification has what is told, as it is sent.
type Notification struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// ID is the same however often the same thing is told: what a restart, or another scheduler that leads, tells again.
	ID      string        `json:"id"`
	Rule    string        `json:"rule"`
	Event   string        `json:"event"`
	Cluster string        `json:"cluster"`
	AtMs    int64         `json:"atUnixMs"`
	Text    string        `json:"text"`
	Job     *AboutJob     `json:"job,omitempty"`
	Machine *AboutMachine `json:"node,omitempty"`
}

// AboutJob is a job that something is told of. Its command, environment and output are not told: a notification leaves
// the cluster, and they are its owner's.
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

// AboutMachine is a machine that something is told of.
type AboutMachine struct {
	ID     string `json:"id"`
	Phase  string `json:"phase"`
	Closed string `json:"unschedulable,omitempty"`
}

// Rule says what is told to whom. An empty list leaves out nothing.
type Rule struct {
	Name     string
	On       []string // of Kinds
	Outcomes []string // of jobs that are over: their phases
	Queues   []string // of jobs
	Owners   []string
	// Tell tells it, or says why it could not.
	Tell func(ctx context.Context, n *Notification) error
}

// wants reports whether a rule is about something.
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
