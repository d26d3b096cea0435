package journal

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of the Journal and their transitions.

// journalState is the state of the Journal's transaction. Doubting is the pause between two attempts to write a
// transaction with an unknown result.
type journalState string

const (
	journalIdle     journalState = "idle"
	journalWriting  journalState = "writing"
	journalDoubting journalState = "doubting"
	journalDeposed  journalState = "deposed"
)

// Table lists the legal transitions.
var Table = actors.Table[journalState]{Kind: actors.KindJournal, Edges: []actors.Edge[journalState]{
	{journalIdle, "write", journalWriting},
	{journalWriting, "applied", journalIdle},
	{journalWriting, "error", journalDoubting},
	{journalWriting, "silence", journalDoubting},
	{journalDoubting, "retry", journalWriting},
	{journalWriting, "deposed", journalDeposed},
}}
