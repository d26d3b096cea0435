package messages

import "fmt"

// This file owns the checks of descriptions of queues, as far as they are those of single values. Whether a tree makes
// sense package policy says.

const (
	maxQueues  = 2_000   // as policy has it
	maxAmounts = 64      // of one kind in one queue
	maxAmount  = 1 << 60 // as policy has it
	maxWeight  = 1_000_000
)

// Validate refuses what no leader can have taken.
func (x *QueuesRecord) Validate() error {
	if x.GetRevision() == 0 {
		return refuse("revision", "must be at least 1", "")
	}
	return first(part("written_by", x.GetWrittenBy()), part("queues", x.GetQueues()))
}

// Validate refuses a description that cannot be read.
func (x *ApplyQueues) Validate() error {
	return first(caller(x.GetPrincipal()), part("queues", x.GetQueues()))
}

// Validate refuses an answer that does not say how it went.
func (x *ApplyQueuesReply) Validate() error { return part("outcome", x.GetOutcome()) }

// Validate refuses a question of nobody.
func (x *GetQueues) Validate() error { return caller(x.GetPrincipal()) }

// Validate refuses an answer that does not say how it went.
func (x *GetQueuesReply) Validate() error { return part("outcome", x.GetOutcome()) }

func (x *Queues) valid() error {
	return first(nameOrNone("default", x.GetDefault()), parts("queues", x.GetQueues(), 1, maxQueues))
}

func (x *QueueSpec) valid() error {
	if _, ok := QueueOrder_name[int32(x.GetOrder())]; !ok {
		return refuse("order", fmt.Sprintf("unsupported value %d", x.GetOrder()),
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
