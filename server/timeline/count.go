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

// This file owns what a sum is made of: a count of all that the Mirror shows, and what the process's actors measured.

// maxQueues bounds the queues that a sum has: those with the greatest use, and what waits for most.
const maxQueues = 50

// gpuAmounts is the name of all GPUs in what a queue is assured of and limited to.
const gpuAmounts = "gpu"

// SumOf makes a sum of what a census says.
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

// greatest are the queues that a sum has. One that has nothing, waits for nothing and is not described is none.
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

// Measured are the promises that were kept or not since it was asked last.
type Measured struct {
	Spans func() []host.Span

	mu   sync.Mutex
	last Promises
}

// Since returns what has come since the last call.
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
