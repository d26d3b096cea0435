package leader

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/array"
	"github.com/yi-json/synapse/actors/leader/coordinator"
	"github.com/yi-json/synapse/actors/leader/job"
	"github.com/yi-json/synapse/actors/leader/journal"
	"github.com/yi-json/synapse/actors/leader/rack"
)

// This file owns the states of a leader's actors, and every step between two of them.

// Tables are the state machines of a leader's actors, for the docs and the tests.
func Tables() []actors.Table[string] {
	return []actors.Table[string]{
		schedulerTable.Words(), job.Table.Words(), coordinator.Table.Words(), rack.Table.Words(), journal.Table.Words(),
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
