package array

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the states of an Array, and every step between two of them.

// arrayState is where an array stands.
type arrayState string

const (
	arrayBorn arrayState = "born"
	arrayOpen arrayState = "open"
	arrayOver arrayState = "over"
)

// Table is every step between two of them.
var Table = actors.Table[arrayState]{Kind: actors.KindArray, Edges: []actors.Edge[arrayState]{
	{arrayBorn, "opened", arrayOpen},
	{arrayOpen, "all over", arrayOver},
}}
