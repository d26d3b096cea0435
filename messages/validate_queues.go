package messages

import "fmt"

// This file has the checks of single values in the configuration of queues. Package policy/share checks the tree.

const (
	maxQueues  = 2_000   // same as in policy/share
	maxAmounts = 64      // of one kind in one queue
	maxAmount  = 1 << 60 // same as in policy/share
	maxWeight  = 1_000_000
)

// Validate refuses a record that no leader can have written.
func (x *QueuesRecord) Validate() error {
	if x.GetRevision() == 0 {
		return refuse("revision", "must be at least 1", "")
	}
	return first(part("written_by", x.GetWrittenBy()), part("queues", x.GetQueues()))
}

// Validate refuses an invalid configuration.
func (x *ApplyQueues) Validate() error {
	return first(caller(x.GetPrincipal()), part("queues", x.GetQueues()))
}

// Validate refuses a reply without an outcome.
func (x *ApplyQueuesReply) Validate() error { return part("outcome", x.GetOutcome()) }

// Validate refuses a request without a caller.
func (x *GetQueues) Validate() error { return caller(x.GetPrincipal()) }

// Validate refuses a reply without an outcome.
func (x *GetQueuesReply) Validate() error { return part("outcome", x.GetOutcome()) }

func (x *Queues) valid() error {
	return first(nameOrNone("default", x.GetDefault()), parts("queues", x.GetQueues(), 1, maxQueues))
}

func (x *QueueSpec) valid() error {
	if _, ok := QueueOrder_name[int32(x.GetOrder())]; !ok {
		return refuse("order", fmt.Sprintf("unsupported value %d", x.GetOrder()),
			"upgrade the scheduler: the client is newer")
	}
	if _, ok := IdleAction_name[int32(x.GetIdleThen())]; !ok {
		return refuse("idle_then", fmt.Sprintf("unsupported value %d", x.GetIdleThen()),
			"upgrade the scheduler: the client is newer")
	}
	return first(
		name("name", x.GetName()),
		nameOrNone("parent", x.GetParent()),
		amounts("quota", x.GetQuota()),
		amounts("limit", x.GetLimit()),
		amounts("owner_amounts", x.GetOwnerAmounts()),
		between("weight", x.GetWeight(), 0, maxWeight),
		labels("selector", x.GetSelector()),
		duration("default_limit_ms", x.GetDefaultLimitMs()),
		duration("most_limit_ms", x.GetMostLimitMs()),
		duration("min_run_ms", x.GetMinRunMs()),
		duration("most_grace_ms", x.GetMostGraceMs()),
		duration("idle_after_ms", x.GetIdleAfterMs()),
		between("default_priority", int64(x.GetDefaultPriority()), -MaxPriority, MaxPriority),
		between("most_priority", int64(x.GetMostPriority()), -MaxPriority, MaxPriority),
		between("owner_machines", x.GetOwnerMachines(), 0, maxAmount),
		between("owner_running", x.GetOwnerRunning(), 0, maxAmount),
		between("owner_waiting", x.GetOwnerWaiting(), 0, maxAmount),
		owners(x.GetOwners()),
	)
}

func amounts(field string, list []*Amount) error {
	return first(parts(field, list, 0, maxAmounts), unique(field, list, (*Amount).GetName))
}

func (x *Amount) valid() error {
	if x.GetName() == "" {
		return refuse("name", "is missing", "")
	}
	return first(text("name", x.GetName(), MaxNameBytes), between("amount", x.GetAmount(), 0, maxAmount))
}
