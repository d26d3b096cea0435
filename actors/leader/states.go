package leader

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/array"
	"github.com/yi-json/synapse/actors/leader/coordinator"
	"github.com/yi-json/synapse/actors/leader/journal"
	"github.com/yi-json/synapse/actors/leader/rack"
	"github.com/yi-json/synapse/messages"
)

// This file owns the states of a leader's actors, and every step between two of them.

// Tables are the state machines of a leader's actors, for the docs and the tests.
func Tables() []actors.Table[string] {
	return []actors.Table[string]{
		schedulerTable.Words(), jobTable.Words(), coordinator.Table.Words(), rack.Table.Words(), journal.Table.Words(),
		array.Table.Words(),
	}
}

// schedulerState is how far a leader has taken over.
type schedulerState string

const (
	schedulerLoading    schedulerState = "loading"
	schedulerRecovering schedulerState = "recovering"
	schedulerLeading    schedulerState = "leading"
)

var schedulerTable = actors.Table[schedulerState]{Kind: actors.KindScheduler, Edges: []actors.Edge[schedulerState]{
	{schedulerLoading, "loaded", schedulerRecovering},
	{schedulerRecovering, "all heard", schedulerLeading},
	{schedulerRecovering, "waited", schedulerLeading},
}}

// jobState is where a job stands. What people are told of most of them is the same word.
type jobState string

const (
	jobBorn      jobState = "born"
	jobQueued    jobState = messages.PhaseQueued
	jobReserving jobState = messages.PhaseReserving
	jobDeciding  jobState = messages.PhaseDeciding
	jobStarting  jobState = messages.PhaseStarting
	jobRunning   jobState = messages.PhaseRunning
	jobStopping  jobState = messages.PhaseStopping
	jobClosing   jobState = messages.PhaseClosing
	jobSettling  jobState = "settling"
	jobOver      jobState = "over"
)

var jobTable = actors.Table[jobState]{Kind: actors.KindJob, Edges: []actors.Edge[jobState]{
	{jobBorn, "queued", jobQueued},
	{jobBorn, "resumed", jobStarting},
	{jobBorn, "ended", jobStopping},
	{jobBorn, "finished", jobSettling},
	{jobQueued, "admitted", jobReserving},
	{jobQueued, "closed", jobClosing},
	{jobReserving, "aborted", jobQueued},
	{jobReserving, "granted", jobDeciding},
	{jobReserving, "withdrawn", jobQueued},
	{jobReserving, "closed", jobClosing},
	{jobDeciding, "withdrawn", jobQueued},
	{jobDeciding, "committed", jobStarting},
	{jobClosing, "finished", jobSettling},
	{jobStarting, "started", jobRunning},
	{jobStarting, "ended", jobStopping},
	{jobRunning, "ended", jobStopping},
	{jobStopping, "requeued", jobQueued},
	{jobStopping, "finished", jobSettling},
	{jobSettling, "evidence", jobOver},
}}
