package scheduler

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of the Scheduler, and every step between two of them.

// schedulerState is how far a leader has taken over.
type schedulerState string

const (
	schedulerLoading    schedulerState = "loading"
	schedulerRecovering schedulerState = "recovering"
	schedulerLeading    schedulerState = "leading"
)

// Table is every step between two of them.
var Table = actors.Table[schedulerState]{Kind: actors.KindScheduler, Edges: []actors.Edge[schedulerState]{
	{schedulerLoading, "loaded", schedulerRecovering},
	{schedulerRecovering, "all heard", schedulerLeading},
	{schedulerRecovering, "waited", schedulerLeading},
}}
