package rack

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of a Rack's members and their transitions.

// memberState is a Rack's view of one of its nodes.
type memberState string

const (
	memberExpected memberState = "expected"
	memberAlive    memberState = "alive"
	memberDead     memberState = "dead"
)

// Table lists the legal transitions.
var Table = actors.Table[memberState]{Kind: actors.KindRack, Edges: []actors.Edge[memberState]{
	{memberExpected, "hello", memberAlive},
	{memberExpected, "silence", memberDead},
	{memberAlive, "silence", memberDead},
	{memberAlive, "hello", memberAlive},
	{memberDead, "hello", memberAlive},
}}
