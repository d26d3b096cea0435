package array

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of an Array and their transitions.

// arrayState is the state of an array.
type arrayState string

const (
	arrayBorn arrayState = "born"
	arrayOpen arrayState = "open"
	arrayOver arrayState = "over"
)

// Table lists the legal transitions.
var Table = actors.Table[arrayState]{Kind: actors.KindArray, Edges: []actors.Edge[arrayState]{
	{arrayBorn, "opened", arrayOpen},
	{arrayOpen, "all over", arrayOver},
}}
