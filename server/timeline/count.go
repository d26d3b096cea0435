package timeline

import (
	"slices"
	"sync"
	"time"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
)

// This file collects the values of a sum: counts from the Mirror, and measurements of the process's actors.

// maxQueues limits the queues in a sum: those with the most use and the most waiting jobs.
const maxQueues = 50

// gpuAmounts is the name of all GPUs in a queue's quota and limit.
const gpuAmounts = "gpu"

// SumOf returns the sum for a census.
func SumOf(c *mirror.Census) *Sum {
	s := &Sum{Of: 1, GPUs: map[string]int64{}, Waiting: map[string]int64{}, Queues: map[string]Queue{}, Read: readingOf(c)}
	for i := range c.Stocks {
		for state, n := range c.Stocks[i].Of {
			s.GPUs[mirror.StockWords[state]] += n
		}
	}
	for kind := range c.Waiting {
		for _, n := range c.Waiting[kind] {
			if n > 0 {
				s.Waiting[messages.WaitCode(kind).String()] += int64(n)
			}
		}
	}
	parents := queues.Parents(&messages.Queues{Queues: c.Described})
	for _, q := range c.Described {
		s.Queues[q.GetName()] = Queue{Quota: amountOf(q.GetQuota()), Limit: amountOf(q.GetLimit())}
	}
	for i := range c.Queues {
		one := &c.Queues[i]
		queues.EachAbove(one.Name, "", parents, func(name string) {
			q := s.Queues[name]
			q.Use, q.Asked = q.Use+one.Held, q.Asked+one.Wanted
			q.Running, q.Waiting = q.Running+one.Running, q.Waiting+one.Waiting
			s.Queues[name] = q
		})
	}
	s.Queues = greatest(s.Queues)
	return s
}

func amountOf(all []*messages.Amount) *int64 {
	for _, a := range all {
		if a.GetName() == gpuAmounts {
			n := a.GetAmount()
			return &n
		}
	}
	return nil
}

// greatest returns the queues of a sum. It omits a queue without jobs and configuration.
func greatest(all map[string]Queue) map[string]Queue {
	names := slices.DeleteFunc(sortedKeys(all), func(name string) bool {
		q := all[name]
		return q == Queue{}
	})
	slices.SortStableFunc(names, func(a, b string) int {
		return int(min(max(all[b].Use+all[b].Asked-all[a].Use-all[a].Asked, -1), 1))
	})
	kept := map[string]Queue{}
	for _, name := range names[:min(len(names), maxQueues)] {
		kept[name] = all[name]
	}
	return kept
}

// Measured returns how many start guarantees were met and missed since its last call.
type Measured struct {
	Spans func() []host.Span

	mu   sync.Mutex
	last Promises
}

// Since returns the values since the last call.
func (m *Measured) Since() Promises {
	var now Promises
	near, _ := slices.BinarySearch(host.Bounds, NearMs*time.Millisecond)
	for _, s := range m.Spans() {
		switch s.Name {
		case mirror.TookLate:
			now.Late = s.Sum.Milliseconds()
		case mirror.TookEarly:
			now.Early = s.Sum.Milliseconds()
		default:
			continue
		}
		now.Jobs += int64(s.Count)
		now.Near += int64(s.Within[near])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	since := Promises{now.Jobs - m.last.Jobs, now.Late - m.last.Late, now.Early - m.last.Early, now.Near - m.last.Near}
	m.last = now
	return since
}
