package coordinator

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of a Coordinator and their transitions.

// coordinatorState is the phase of an attempt before its barrier.
type coordinatorState string

const (
	coordinatorBorn       coordinatorState = "born"
	coordinatorReserving  coordinatorState = "reserving"
	coordinatorDeciding   coordinatorState = "deciding"
	coordinatorCommitting coordinatorState = "committing"
	coordinatorPreparing  coordinatorState = "preparing"
	coordinatorStarting   coordinatorState = "starting"
	coordinatorAborting   coordinatorState = "aborting"
	coordinatorDone       coordinatorState = "done"
)

// Table lists the legal transitions.
var Table = actors.Table[coordinatorState]{Kind: actors.KindCoordinator,
	Edges: []actors.Edge[coordinatorState]{
		{coordinatorBorn, "reserve", coordinatorReserving},
		{coordinatorBorn, "resume", coordinatorCommitting},
		{coordinatorReserving, "all reserved", coordinatorDeciding},
		{coordinatorReserving, "refused", coordinatorAborting},
		{coordinatorReserving, "too late", coordinatorAborting},
		{coordinatorReserving, "halted", coordinatorAborting},
		{coordinatorDeciding, "decided", coordinatorCommitting},
		{coordinatorDeciding, "halted", coordinatorAborting},
		{coordinatorCommitting, "all committed", coordinatorPreparing},
		{coordinatorCommitting, "halted", coordinatorDone},
		{coordinatorPreparing, "all prepared", coordinatorStarting},
		{coordinatorPreparing, "halted", coordinatorDone},
		{coordinatorStarting, "all started", coordinatorDone},
		{coordinatorStarting, "halted", coordinatorDone},
		{coordinatorAborting, "all aborted", coordinatorDone},
		{coordinatorAborting, "time is over", coordinatorDone},
	}}
