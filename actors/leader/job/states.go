package job

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the states of a Job and their transitions.

// jobState is the state of a job. For most states, users see the same word.
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

// Table lists the legal transitions.
var Table = actors.Table[jobState]{Kind: actors.KindJob, Edges: []actors.Edge[jobState]{
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
	{jobStopping, "inherited", jobStarting},
	{jobStopping, "requeued", jobQueued},
	{jobStopping, "finished", jobSettling},
	{jobSettling, "evidence", jobOver},
}}
