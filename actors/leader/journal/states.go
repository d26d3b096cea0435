package journal

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of the Journal, and every step between two of them.

// journalState says what the Journal does with its transaction. Doubting is the pause between two
// tries of a transaction of which nobody knows whether it happened.
type journalState string

const (
	journalIdle     journalState = "idle"
	journalWriting  journalState = "writing"
	journalDoubting journalState = "doubting"
	journalDeposed  journalState = "deposed"
)

// Table is every step between two of them.
var Table = actors.Table[journalState]{Kind: actors.KindJournal, Edges: []actors.Edge[journalState]{
	{journalIdle, "write", journalWriting},
	{journalWriting, "applied", journalIdle},
	{journalWriting, "error", journalDoubting},
	{journalWriting, "silence", journalDoubting},
	{journalDoubting, "retry", journalWriting},
	{journalWriting, "deposed", journalDeposed},
}}
