// Package queues converts the configuration of queues between messages (messages.Queues) and the planner
// (share.Queues). Neither of the two packages imports the other.
package queues

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file has both conversions. Messages have milliseconds, and the planner has nanoseconds.

const nsOfMs = 1_000_000

// orders lists the orders. The index of an order is its number in messages.QueueOrder minus one.
var orders = []share.Order{share.Expected, share.FIFO, share.Fair}

// From converts messages to the planner's queues.
func From(q *messages.Queues, revision uint64) *share.Queues {
	out := &share.Queues{Revision: revision, Default: q.GetDefault()}
	for _, s := range q.GetQueues() {
		out.Queues = append(out.Queues, fromSpec(s))
	}
	return out
}

func fromSpec(s *messages.QueueSpec) share.QueueSpec {
	q := share.QueueSpec{
		Name: s.GetName(), Parent: s.GetParent(), Quota: fromAmounts(s.GetQuota()), Limit: fromAmounts(s.GetLimit()),
		Owner: share.PerOwner{
			Amounts: fromAmounts(s.GetOwnerAmounts()), Machines: s.OwnerMachines, Running: s.OwnerRunning,
			Waiting: s.OwnerWaiting,
		},
		DefaultLimit: times(s.DefaultLimitMs, nsOfMs), MostLimit: times(s.MostLimitMs, nsOfMs),
		DefaultPriority: s.DefaultPriority, MostPriority: s.MostPriority,
		Preemption: share.Preemption{
			ByPriority: s.ByPriority, Reclaim: s.Reclaim, Shortest: s.Shortest, MinRun: times(s.MinRunMs, nsOfMs),
			MostGrace: times(s.MostGraceMs, nsOfMs),
		},
		Idle:   share.Idle{After: times(s.IdleAfterMs, nsOfMs)},
		Owners: s.GetOwners(),
	}
	if n := s.GetIdleThen(); n == messages.IdleAction_IDLE_ACTION_REPORT || n == messages.IdleAction_IDLE_ACTION_SIGNAL {
		then := share.IdleAction(n - messages.IdleAction_IDLE_ACTION_REPORT)
		q.Idle.Then = &then
	}
	if s.GetWeight() != 0 {
		q.Weight = &s.Weight
	}
	if n := int(s.GetOrder()) - 1; n >= 0 && n < len(orders) {
		q.Order = &orders[n]
	}
	for _, l := range s.GetSelector() {
		q.Selector = append(q.Selector, topology.Label{Key: l.GetKey(), Value: l.GetValue()})
	}
	return q
}

// To converts the planner's queues to messages.
func To(q *share.Queues) *messages.Queues {
	out := &messages.Queues{Default: q.Default}
	for i := range q.Queues {
		out.Queues = append(out.Queues, toSpec(&q.Queues[i]))
	}
	return out
}

func toSpec(q *share.QueueSpec) *messages.QueueSpec {
	s := &messages.QueueSpec{
		Name: q.Name, Parent: q.Parent, Quota: toAmounts(q.Quota), Limit: toAmounts(q.Limit),
		OwnerAmounts: toAmounts(q.Owner.Amounts), OwnerMachines: q.Owner.Machines, OwnerRunning: q.Owner.Running,
		OwnerWaiting: q.Owner.Waiting, DefaultLimitMs: parts(q.DefaultLimit, nsOfMs), MostLimitMs: parts(q.MostLimit, nsOfMs),
		DefaultPriority: q.DefaultPriority, MostPriority: q.MostPriority, ByPriority: q.Preemption.ByPriority,
		Reclaim: q.Preemption.Reclaim, Shortest: q.Preemption.Shortest, MinRunMs: parts(q.Preemption.MinRun, nsOfMs),
		MostGraceMs: parts(q.Preemption.MostGrace, nsOfMs),
		Owners:      q.Owners, IdleAfterMs: parts(q.Idle.After, nsOfMs),
	}
	if q.Idle.Then != nil {
		s.IdleThen = messages.IdleAction_IDLE_ACTION_REPORT + messages.IdleAction(*q.Idle.Then)
	}
	if q.Weight != nil {
		s.Weight = *q.Weight
	}
	for n, order := range orders {
		if q.Order != nil && *q.Order == order {
			s.Order = messages.QueueOrder(n + 1)
		}
	}
	for _, l := range q.Selector {
		s.Selector = append(s.Selector, &messages.Label{Key: l.Key, Value: l.Value})
	}
	return s
}

func fromAmounts(list []*messages.Amount) (all share.Amounts) {
	for _, a := range list {
		all = append(all, share.Amount{Name: a.GetName(), Amount: a.GetAmount()})
	}
	return all
}

func toAmounts(list share.Amounts) (all []*messages.Amount) {
	for _, a := range list {
		all = append(all, &messages.Amount{Name: a.Name, Amount: a.Amount})
	}
	return all
}

func times(n *int64, by int64) *int64 {
	if n == nil {
		return nil
	}
	product := *n * by
	return &product
}

func parts(n *int64, by int64) *int64 {
	if n == nil {
		return nil
	}
	part := *n / by
	return &part
}
