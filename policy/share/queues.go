// Package share says who of several may have what: the queues of a cluster as its owner describes them, and what the
// jobs of each have. It is pure: who knows the time passes it in, in nanoseconds.
package share

// This file owns the queues of a cluster as its owner describes them: a tree of groups, each with what it is assured,
// what it may have at most, and how its jobs are ordered. It is a value; what is counted by it is in tree.go. What
// a file may say and what is wrong with it is checked in queues_check.go.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Queues holds the whole description. It is read and written as one, so that a tree is never half an earlier one.
type Queues struct {
	// Revision counts how often the description was replaced; 0: nobody says.
	Revision uint64 `json:",omitempty"`
	// Default is the queue of jobs that name none; "": such jobs are refused.
	Default string `json:",omitempty"`
	Queues  []QueueSpec
}

// QueueSpec describes one queue. What is nil is not given: the parent's holds. Times are in nanoseconds.
type QueueSpec struct {
	Name   string
	Parent string `json:",omitempty"`
	// Quota is what the queue is assured, with all below it; Limit what it never has more of.
	Quota  Amounts  `json:",omitempty"`
	Limit  Amounts  `json:",omitempty"`
	Weight *int64   `json:",omitempty"`
	Order  *Order   `json:",omitempty"`
	Owner  PerOwner `json:"PerOwner"`
	// DefaultLimit is the time limit of jobs that name none, MostLimit the largest that a job may name.
	DefaultLimit *int64 `json:",omitempty"`
	MostLimit    *int64 `json:",omitempty"`
	// Selector are labels that machines must have for the jobs of this queue.
	Selector        []topology.Label `json:",omitempty"`
	DefaultPriority *int32           `json:",omitempty"`
	MostPriority    *int32           `json:",omitempty"`
	Preemption      Preemption
	// Owners may bring jobs: names, and groups as "group:NAME". A plan does not look at them: a job is refused at submit.
	Owners []string `json:",omitempty"`
}

// PerOwner says what one owner may have in a queue, with all below it.
type PerOwner struct {
	Amounts  Amounts `json:",omitempty"`
	Machines *int64  `json:",omitempty"` // on which the owner's jobs run, each counted once
	Running  *int64  `json:",omitempty"` // jobs
	Waiting  *int64  `json:",omitempty"` // jobs
}

// Preemption says what may be stopped for the jobs of a queue. All of it is off where nobody switches it on.
type Preemption struct {
	ByPriority *bool  `json:",omitempty"` // jobs of lower priority in the same queue
	Reclaim    *bool  `json:",omitempty"` // what others have above their quotas
	Shortest   *bool  `json:",omitempty"` // jobs that need much longer than this one
	MinRun     *int64 `json:",omitempty"` // of the victim's queue: nothing is stopped that ran for less
}

// Names of amounts that are no GPU type.
const (
	AmountGPU    = "gpu"
	AmountCPU    = "cpu"
	AmountMemory = "memory"
)

// Amount is so much of one thing: GPUs in all or those of one type, in thousandths; CPU in thousandths of a core;
// memory in bytes.
type Amount struct {
	Name   string
	Amount int64
}

// Amounts lists some of them, each named once. One that is not named is not counted.
type Amounts []Amount

// Of returns the amount of a name; false where it is not named.
func (a Amounts) Of(name string) (int64, bool) {
	for i := range a {
		if a[i].Name == name {
			return a[i].Amount, true
		}
	}
	return 0, false
}

// Preempts reports whether some queue may have jobs stopped for its own.
func (q *Queues) Preempts() bool {
	on := func(b *bool) bool { return b != nil && *b }
	return slices.ContainsFunc(q.Queues, func(s QueueSpec) bool {
		return on(s.Preemption.ByPriority) || on(s.Preemption.Reclaim) || on(s.Preemption.Shortest)
	})
}

// Find returns a queue's place in the list; below 0: there is none of that name.
func (q *Queues) Find(name string) int {
	for i := range q.Queues {
		if q.Queues[i].Name == name {
			return i
		}
	}
	return -1
}

// Names lists those of all queues, in the order of the description.
func (q *Queues) Names() []string {
	names := make([]string, 0, len(q.Queues))
	for i := range q.Queues {
		names = append(names, q.Queues[i].Name)
	}
	return names
}

// Order says which job goes first of those of one priority.
type Order uint8

const (
	// FIFO: the one that came first. What comes behind it starts where there is room, and none is kept.
	FIFO Order = iota
	// Expected: the one that is expected to need the least. The planner looks ahead.
	Expected
	// Fair: the one whose owner has used least of late; of one owner's, as Expected. It is an order inside a queue.
	Fair
)

// String returns the word of the configuration file.
func (o Order) String() string { return [...]string{"fifo", "expected", "fair"}[o] }
