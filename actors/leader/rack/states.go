package rack

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of a Rack, which are those of its machines, and every step between two of them.

// memberState says what a rack takes one of its machines for.
type memberState string

const (
	memberExpected memberState = "expected"
	memberAlive    memberState = "alive"
	memberDead     memberState = "dead"
)

// Table is every step between two of them.
var Table = actors.Table[memberState]{Kind: actors.KindRack, Edges: []actors.Edge[memberState]{
	{memberExpected, "hello", memberAlive},
	{memberExpected, "silence", memberDead},
	{memberAlive, "silence", memberDead},
	{memberAlive, "hello", memberAlive},
	{memberDead, "hello", memberAlive},
}}
