package mirror

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/straggler"
)

// This file owns the ranks that are slower than the other ranks of their gang. It only shows them.

// paceEvery is the least time between two comparisons of the ranks of one attempt. Each comparison looks at every rank,
// and thousands of nodes can report within a second.
const paceEvery = 5 * time.Second

// stragglers holds the slow ranks of one attempt.
type stragglers struct {
	watch straggler.Watch
	named []*messages.SlowRank
	count int
	at    actors.Instant // time of the last comparison; 0: none
	told  bool           // an event has reported them
}

// watchPaces compares the ranks of a job, and reports slow ranks once in an attempt.
func (m *Mirror) watchPaces(ctx actor.Context, s shownJob, now actors.Instant) {
	slow := &s.progress.slow
	if slow.at != 0 && now.Since(slow.at) < paceEvery {
		return
	}
	var all []straggler.Pace
	for id, n := range s.progress.nodes { //order: the watch compares each rank with the median of all
		for _, p := range n.GetPaces() {
			all = append(all, straggler.Pace{RankPace: p, Node: string(id)})
		}
	}
	slow.at = now
	if slow.named, slow.count = slow.watch.Observe(all); slow.count == 0 || slow.told {
		return
	}
	slow.told = true
	shown := m.progressed(s)
	text := jobWords(shown) + ", slow: " + messages.SlowWords(shown.Progress)
	m.tell(ctx, &messages.Event{Job: listed(shown), Text: text})
}
