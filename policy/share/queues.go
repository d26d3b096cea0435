// Package share has the configuration of queues, and counts what their jobs use. It is pure: callers pass the time in
// nanoseconds.
package share

// This file has the configuration of queues: a tree of queues, each with a quota, limits and an order for its jobs. It
// is a plain value. tree.go counts usage, and queues_check.go checks the configuration.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Queues holds the complete configuration. It is read and written as a whole, so a tree never mixes two configurations.
type Queues struct {
	// Revision is the number of times that the configuration was replaced; 0: unknown.
	Revision uint64 `json:",omitempty"`
	// Default is the queue of jobs that name none; "": such jobs are refused.
	Default string `json:",omitempty"`
	Queues  []QueueSpec
}

// QueueSpec is the configuration of one queue. Nil values are inherited from the parent. Times are in nanoseconds.
type QueueSpec struct {
	Name   string
	Parent string `json:",omitempty"`
	// Quota is the assured amount of the queue and its descendants. Limit is their hard cap.
	Quota  Amounts  `json:",omitempty"`
	Limit  Amounts  `json:",omitempty"`
	Weight *int64   `json:",omitempty"`
	Order  *Order   `json:",omitempty"`
	Owner  PerOwner `json:"PerOwner"`
	// DefaultLimit is the time limit of jobs that set none. MostLimit is the longest allowed time limit.
	DefaultLimit *int64 `json:",omitempty"`
	MostLimit    *int64 `json:",omitempty"`
	// Selector has the labels that nodes must have for the jobs of this queue.
	Selector        []topology.Label `json:",omitempty"`
	DefaultPriority *int32           `json:",omitempty"`
	MostPriority    *int32           `json:",omitempty"`
	Preemption      Preemption
	Idle            Idle
	// Owners lists the owners that may submit jobs: names, and groups as "group:NAME". It is checked at submit, not
	// in a plan.
	Owners []string `json:",omitempty"`
}

// PerOwner limits one owner in a queue and its descendants.
type PerOwner struct {
	Amounts  Amounts `json:",omitempty"`
	Machines *int64  `json:",omitempty"` // nodes on which the owner's jobs run, each counted once
	Running  *int64  `json:",omitempty"` // jobs
	Waiting  *int64  `json:",omitempty"` // jobs
}

// Preemption selects the jobs that may be stopped for the jobs of a queue. Everything is off by default.
type Preemption struct {
	ByPriority *bool  `json:",omitempty"` // jobs with a lower priority in the same queue
	Reclaim    *bool  `json:",omitempty"` // usage of other queues beyond their quotas
	Shortest   *bool  `json:",omitempty"` // jobs with a much longer remaining run time
	MinRun     *int64 `json:",omitempty"` // of the victim's queue: minimum run time before a stop
	MostGrace  *int64 `json:",omitempty"` // of the victim's queue: longest time to save, checked at submit
}

// Idle sets the action for running jobs of a queue that hold resources and do nothing.
type Idle struct {
	After *int64      `json:",omitempty"` // time until the action
	Then  *IdleAction `json:",omitempty"`
}

// IdleAction is an action for a job that does nothing.
type IdleAction uint8

const (
	// IdleReport: an event reports the job.
	IdleReport IdleAction = iota
	// IdleSignal: the tasks get a notice and the warning signal of the job as well.
	IdleSignal
)

// MinIdleAfter is the shortest time after which a job counts as idle. Nodes measure every 10 s, and report later.
const MinIdleAfter = 60 * 1_000_000_000

// Names of amounts that are not a GPU type.
const (
	AmountGPU    = "gpu"
	AmountCPU    = "cpu"
	AmountMemory = "memory"
)

// Amount is an amount of one resource: all GPUs or the GPUs of one type in thousandths, CPU in thousandths of a core,
// or memory in bytes.
type Amount struct {
	Name   string
	Amount int64
}

// Amounts is a list of amounts with unique names. A missing amount is not counted.
type Amounts []Amount

// Of returns the amount with a name, and false if it is missing.
func (a Amounts) Of(name string) (int64, bool) {
	for i := range a {
		if a[i].Name == name {
			return a[i].Amount, true
		}
	}
	return 0, false
}

// Preempts reports whether any queue may stop other jobs for its own.
func (q *Queues) Preempts() bool {
	on := func(b *bool) bool { return b != nil && *b }
	return slices.ContainsFunc(q.Queues, func(s QueueSpec) bool {
		return on(s.Preemption.ByPriority) || on(s.Preemption.Reclaim) || on(s.Preemption.Shortest)
	})
}

// Find returns the index of a queue in the list, or -1.
func (q *Queues) Find(name string) int {
	for i := range q.Queues {
		if q.Queues[i].Name == name {
			return i
		}
	}
	return -1
}

// Names returns the names of all queues, in the order of the configuration.
func (q *Queues) Names() []string {
	names := make([]string, 0, len(q.Queues))
	for i := range q.Queues {
		names = append(names, q.Queues[i].Name)
	}
	return names
}

// Order is the order of jobs with equal priority.
type Order uint8

const (
	// FIFO: by arrival. Later jobs start if they fit, and nothing is reserved.
	FIFO Order = iota
	// Expected: least expected work first. The planner looks ahead.
	Expected
	// Fair: the job whose owner has used least recently. The jobs of one owner are ordered as in Expected. It is an
	// order within a queue.
	Fair
)

// String returns the word in the configuration file.
func (o Order) String() string { return [...]string{"fifo", "expected", "fair"}[o] }
