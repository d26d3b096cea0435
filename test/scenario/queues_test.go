// This file holds the command for queues in a scenario.
package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// queues applies the queues of its lines, such as "q quota=8 limit=16 by-priority reclaim min-run=60s idle=30m signal".
// Amounts are GPUs. Jobs without a queue use the first one.
func (s *stage) queues(l commandLine) string {
	q := &messages.Queues{}
	for _, text := range strings.Split(strings.TrimSpace(l.d.Input), "\n") {
		words := strings.Fields(text)
		spec := &messages.QueueSpec{Name: words[0]}
		for _, word := range words[1:] {
			s.describe(l, spec, word)
		}
		q.Queues = append(q.Queues, spec)
	}
	q.Default = q.Queues[0].Name
	out := "no answer"
	s.asked(actors.SchedulerPath, &messages.ApplyQueues{Principal: &messages.Principal{Name: "admin"}, Queues: q},
		func(m messages.Message) {
			r := m.(*messages.ApplyQueuesReply)
			if out = ""; r.Outcome.GetCode() != messages.Code_CODE_OK {
				out = codeOf(r.Outcome)
			}
		})
	return out
}

func (s *stage) describe(l commandLine, spec *messages.QueueSpec, word string) {
	key, value, _ := strings.Cut(word, "=")
	yes := true
	gpus := func() []*messages.Amount {
		n, err := strconv.Atoi(value)
		l.must(err)
		return []*messages.Amount{{Name: "gpu", Amount: int64(n) * 1000}}
	}
	switch key {
	case "parent":
		spec.Parent = value
	case "quota":
		spec.Quota = gpus()
	case "limit":
		spec.Limit = gpus()
	case "by-priority":
		spec.ByPriority = &yes
	case "reclaim":
		spec.Reclaim = &yes
	case "shortest":
		spec.Shortest = &yes
	case "min-run":
		d, err := time.ParseDuration(value)
		l.must(err)
		ms := d.Milliseconds()
		spec.MinRunMs = &ms
	case "idle":
		d, err := time.ParseDuration(value)
		l.must(err)
		ms := d.Milliseconds()
		spec.IdleAfterMs = &ms
	case "signal":
		spec.IdleThen = messages.IdleAction_IDLE_ACTION_SIGNAL
	default:
		l.d.Fatalf(l.t, "a queue has no %s", key)
	}
}
