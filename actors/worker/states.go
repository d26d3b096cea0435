package worker

import "github.com/yi-json/synapse/actors"

// This file owns the states of a node's actors and their transitions.

// Tables returns the state machines of a node's actors, for the documentation and the tests.
func Tables() []actors.Table[string] {
	return []actors.Table[string]{nodeTable.Words(), taskTable.Words()}
}

// nodeState is the progress of a node agent's startup: with its disk, its tasks and its leader.
type nodeState string

const (
	nodeLoading  nodeState = "loading"
	nodeListing  nodeState = "listing"
	nodeAdopting nodeState = "adopting"
	nodeAlone    nodeState = "alone"
	nodeJoining  nodeState = "joining"
	nodeMember   nodeState = "member"
)

var nodeTable = actors.Table[nodeState]{Kind: actors.KindNode, Edges: []actors.Edge[nodeState]{
	{nodeLoading, "loaded", nodeListing},
	{nodeListing, "listed", nodeAdopting},
	{nodeAdopting, "adopted", nodeAlone},
	{nodeAlone, "lead", nodeJoining},
	{nodeJoining, "lead", nodeJoining},
	{nodeJoining, "welcome", nodeMember},
	{nodeJoining, "rejected", nodeAlone},
	{nodeMember, "welcome", nodeMember},
	{nodeMember, "lead", nodeJoining},
}}

// taskState is the state of one container.
type taskState string

const (
	taskBorn      taskState = "born"
	taskAdopting  taskState = "adopting"
	taskPreparing taskState = "preparing"
	taskPrepared  taskState = "prepared"
	taskStarting  taskState = "starting"
	taskRunning   taskState = "running"
	taskStopping  taskState = "stopping"
	taskGone      taskState = "gone"
)

var taskTable = actors.Table[taskState]{Kind: actors.KindTask, Edges: []actors.Edge[taskState]{
	{taskBorn, "prepare", taskPreparing},
	{taskBorn, "adopt", taskAdopting},
	{taskBorn, "stop", taskStopping},
	{taskPreparing, "prepared", taskPrepared},
	{taskPreparing, "started", taskRunning}, // an earlier agent's Start took effect late
	{taskPreparing, "gone", taskGone},
	{taskPreparing, "stop", taskStopping},
	{taskPrepared, "start", taskStarting},
	{taskPrepared, "started", taskRunning}, // an earlier agent's Start took effect late
	{taskPrepared, "gone", taskGone},
	{taskPrepared, "stop", taskStopping},
	{taskStarting, "started", taskRunning},
	{taskStarting, "gone", taskGone},
	{taskStarting, "stop", taskStopping},
	{taskAdopting, "started", taskRunning},
	{taskAdopting, "gone", taskGone},
	{taskRunning, "gone", taskGone},
	{taskRunning, "stop", taskStopping},
	{taskStopping, "stop", taskStopping},
	{taskStopping, "gone", taskGone},
}}
