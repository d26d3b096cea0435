package renamed

// This file has the renamed columns, labels and values of tables and descriptions.

// The groups of values that Word translates.
const (
	NodeState = "STATE of a node"
	GPUClass  = "class of GPU time"
	Cause     = "cause of an attempt's end"
	Basis     = "basis of a start time"
	Holding   = "STATE of an allocation"
)

var shown = []Name{
	{Column, "get nodes", "MACHINE", "NODE"},
	{Column, "get nodes", "PLACE", "DOMAIN"},
	{Column, "get nodes", "SLICES", "ALLOCS"},
	{Column, "get nodes -o wide", "HEARD", "LAST SEEN"},
	{Column, "get jobs", "RAN", "RUNTIME"},
	{Column, "get jobs -o wide", "RUNS", "ATTEMPTS"},
	{Column, "get jobs --start -o wide", "KEPT", "RESERVED"},
	{Column, "top", "RAN", "RUNTIME"},
	{Column, "describe job", "RUN", "ATTEMPT"},
	{Column, "describe job", "RAN", "RUNTIME"},
	{Column, "describe job", "MACHINE", "NODE"},
	{Column, "history", "RUNS", "ATTEMPTS"},
	{Column, "history", "RAN", "RUNTIME"},
	{Column, "history -o wide", "MACHINES", "NODES"},
	{Column, "history --sum -o wide", "RAN", "RUNTIME"},
	{Column, "get queues", "GPUS WAITED FOR", "GPUS REQUESTED"},
	{Column, "get queues", "WAITS", "WAITING"},
	{Column, "get queues", "MAY USE", "ALLOWED"},
	{Column, "token list", "MADE BY", "CREATED BY"},
	{Column, "token list", "MADE", "CREATED"},
	{Column, "token list", "UNTIL", "EXPIRES"},
	{Column, "contexts", "SHOWS", "CREDENTIAL"},
	{Column, "simulate", "STOPS", "PREEMPTIONS"},
	{Column, "simulate compare", "FIGURE", "METRIC"},

	{Label, "describe node", "Machine", "Node"},
	{Label, "describe node", "Place", "Topology"},
	{Label, "describe node", "Heard", "Last seen"},
	{Label, "describe node", "Benched by", "Backoff by"},
	{Label, "describe node", "Closes", "Drain starts"},
	{Label, "describe node", "Slices", "Allocations"},
	{Label, "describe job", "Asks for", "Requests"},
	{Label, "describe job", "Machines", "Selector"},
	{Label, "describe job", "Only on", "Nodes"},
	{Label, "describe job", "Never on", "Excluded"},
	{Label, "describe job", "Kept", "Reserved"},
	{Label, "describe job", "Told first", "Estimated"},
	{Label, "describe job", "Runs", "Attempts"},
	{Label, "describe job", "Ran", "Runtime"},
	{Label, "describe job", "Waits for", "Unconfirmed"},
	{Label, "describe job", "Stops", "Preempts"},
	{Label, "describe job", "Stopped for it", "Preempted"},
	{Label, "describe job", "Not shown", "Withheld"},
	{Label, "describe job", "Begins", "Begin"},
	{Label, "describe queue", "May use", "Allowed"},

	{Value, NodeState, "benched", "backed-off"},
	{Value, NodeState, "closed", "unschedulable"},
	{Value, GPUClass, "kept", "reserved"},
	{Value, GPUClass, "idle wanted", "idle with demand"},
	{Value, GPUClass, "idle unwanted", "idle without demand"},
	{Value, GPUClass, "closed", "unschedulable"},
	{Value, Cause, "machine lost", "node lost"},
	{Value, Cause, "unwell", "node unhealthy"},
	{Value, Basis, "learned", "estimated"},
	{Value, Basis, "default", "estimated"},
	{Value, Holding, "over", "ended"},
}
