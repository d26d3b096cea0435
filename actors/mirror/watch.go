package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns the watchers and their events. Each visible change of a job or a node is one Event, which all watchers
// share. The Mirror never waits for a watcher. The gateway drops a watcher that is too slow.
//
// Many updates change nothing that users see, such as one more exit in a job's record or a node's ledger after a
// heartbeat. They cause no event, so a gang of a thousand ranks causes as many events as a gang of one.

// mirrorEvents is the number of events that the Mirror keeps for watchers that reconnect.
const mirrorEvents = 1_000

// watch holds the watchers. They are notified in the order in which they came, so every simulation run is identical.
type watch struct {
	seq      uint64      // of the last event
	last     []keptEvent // the last events, without a gap, oldest first
	bytes    int         // total size of those events
	watchers []watcher
}

// keptEvent is an event with its size.
type keptEvent struct {
	*messages.Event
	bytes int
}

type watcher struct {
	pid   *actor.PID
	asked *messages.Watch
}

// firstSeq returns the first event number of a leader. It is larger than all numbers of earlier leaders, so a watcher
// of another leader never seems up to date.
func firstSeq(epoch uint64) uint64 { return epoch << 32 }

// onWatch adds a watcher, or changes its filters.
func (m *Mirror) onWatch(ctx actor.Context, q *messages.Watch) {
	who := ctx.Sender()
	if who == nil {
		return
	}
	m.watch.put(watcher{actor.NewPID(who.Address, who.Id), q})
	switch {
	case q.After == 0 && !q.Present:
		return
	case q.After != 0 && m.watch.remembers(q.After):
		m.watch.replay(ctx, q, who)
		if q.Jobs && q.Reasons { // reasons are not kept as events: only the last one is known
			m.tellReasons(ctx, slices.Sorted(maps.Keys(m.waiting.groups)), q, who)
		}
	case q.Present:
		m.tellPresent(ctx, q, who)
	}
	ctx.Send(who, &messages.Event{Seq: m.watch.seq, AtUnixMs: m.p.Clock.WallMs(), Text: "all that there was has been told",
		Synced: true})
}

// measured reports whether a watcher asked for what running jobs report and use.
func (w *watch) measured() bool {
	return slices.ContainsFunc(w.watchers, func(one watcher) bool { return one.asked.Progress && one.asked.Jobs })
}

func (w *watch) put(one watcher) {
	if at := w.find(one.pid); at >= 0 {
		w.watchers[at] = one
		return
	}
	w.watchers = append(w.watchers, one)
}

func (w *watch) remove(who *actor.PID) {
	if at := w.find(who); who != nil && at >= 0 {
		w.watchers = slices.Delete(w.watchers, at, at+1)
	}
}

func (w *watch) find(who *actor.PID) int {
	return slices.IndexFunc(w.watchers, func(o watcher) bool {
		return who != nil && o.pid.Id == who.Id && o.pid.Address == who.Address
	})
}

// remembers reports whether every later event is still kept.
func (w *watch) remembers(after uint64) bool {
	return after <= w.seq && w.seq-after <= uint64(len(w.last))
}

// replay sends a watcher the events after the last one that it knows.
func (w *watch) replay(ctx actor.Context, q *messages.Watch, who *actor.PID) {
	for _, e := range w.last {
		if e.Seq > q.After && wants(q, e.Event) {
			ctx.Send(who, e.Event)
		}
	}
}

// tellPresent sends a watcher the present state. Each entry is sent as its last event. The nodes come first, so that a
// page can draw its map before it has thousands of waiting jobs.
func (m *Mirror) tellPresent(ctx actor.Context, q *messages.Watch, who *actor.PID) {
	if q.Nodes {
		present(&m.nodes, q.Ids, "", func(id string, s shownNode) {
			if s.told.Node != s.NodeStatus {
				s.told = &messages.Event{Seq: s.told.Seq, AtUnixMs: s.told.AtUnixMs, Text: s.told.Text, Node: s.NodeStatus}
				m.nodes.put(id, s)
			}
			ctx.Send(who, s.told)
		})
	}
	if q.Jobs {
		present(&m.jobs, q.Ids, q.Array, func(id string, s shownJob) {
			now := m.present(s)
			if told := s.told.Job; told.Record != s.Record || told.Reason != now.Reason { // a later change caused no event
				s.told = &messages.Event{Seq: s.told.Seq, AtUnixMs: s.told.AtUnixMs, Text: jobWords(now), Job: listed(now)}
				m.jobs.put(id, s)
			}
			e := s.told
			if q.Progress && (s.progress != nil || s.use != nil) {
				e = &messages.Event{Seq: e.Seq, AtUnixMs: e.AtUnixMs, Text: e.Text, Job: listed(m.progressed(s))}
			}
			if wants(q, e) {
				ctx.Send(who, e)
			}
		})
	}
}

// present visits the entries with these IDs. Without IDs, it visits all entries whose ID has the given prefix. The IDs
// of elements begin with the ID of their array.
func present[V any](table *ordered[V], ids []string, begin string, visit func(string, V)) {
	if len(ids) == 0 {
		table.ascend(begin, func(id string, v V) bool {
			if !strings.HasPrefix(id, begin) {
				return false
			}
			visit(id, v)
			return true
		})
		return
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if v, ok := table.get(id); ok {
			visit(id, v)
		}
	}
}

// wants reports whether a watcher asked for this event.
func wants(q *messages.Watch, e *messages.Event) bool {
	if j := e.Job; j != nil {
		return q.Jobs && chosen(q, j.GetRecord().GetId()) && ofWhom(j.GetRecord(), q.Owner, q.Queue, q.Labels) &&
			(q.Array == "" || q.Array == j.GetRecord().GetId() || q.Array == j.GetRecord().GetSpec().GetElement().GetArray())
	}
	return q.Nodes && chosen(q, e.Node.GetRecord().GetId())
}

func chosen(q *messages.Watch, id string) bool { return len(q.Ids) == 0 || contains(q.Ids, id) }

// tellJob sends the event of a job's change if the change is visible. It returns the last event about the job.
func (m *Mirror) tellJob(ctx actor.Context, before shownJob, now *messages.JobStatus) *messages.Event {
	if before.JobStatus != nil && !jobChanged(before.JobStatus, now) {
		return before.told
	}
	e := &messages.Event{Text: jobWords(now), Job: listed(now)}
	// Between two attempts, the event reports the end of the last attempt. The event also says why the retry has not
	// started, because no group of the queue says so.
	if r := now.GetRecord(); now.Phase == messages.PhaseQueued && r.GetRuns() > 0 &&
		r.GetNotBeforeUnixMs() > m.p.Clock.WallMs() {
		e.Job.Because(m.whyIdle(now))
	}
	return m.tell(ctx, e)
}

func (m *Mirror) tellNode(ctx actor.Context, before shownNode, now *messages.NodeStatus) *messages.Event {
	if before.NodeStatus != nil && !nodeChanged(before.NodeStatus, now) {
		return before.told
	}
	return m.tell(ctx, &messages.Event{Text: nodeWords(before.NodeStatus, now), Node: now})
}

// tellBooks sends a node's changed ledger to watchers that asked for ledgers. The event is not kept, because a watcher
// that reconnects gets the present state.
func (m *Mirror) tellBooks(ctx actor.Context, before, now *messages.NodeStatus) {
	if before.GetLedger().GetVersion() == now.GetLedger().GetVersion() {
		return
	}
	var e *messages.Event
	for i := range m.watch.watchers {
		w := &m.watch.watchers[i]
		if !w.asked.Books || !w.asked.Nodes || !chosen(w.asked, now.GetRecord().GetId()) {
			continue
		}
		if e == nil {
			e = m.figure(&messages.Event{Node: now})
		}
		ctx.Send(w.pid, e)
	}
}

// figure completes an event that is no change in words, and that has no number of its own.
func (m *Mirror) figure(e *messages.Event) *messages.Event {
	e.Seq, e.AtUnixMs = m.watch.seq, m.p.Clock.WallMs()
	return e
}

func (m *Mirror) tellHidden(ctx actor.Context, last *messages.NodeStatus) {
	m.tell(ctx, &messages.Event{Text: "node " + last.GetRecord().GetId() + " removed", Node: last, Hidden: true})
}

// tell numbers an event, keeps it, and sends it to the watchers that want it.
func (m *Mirror) tell(ctx actor.Context, e *messages.Event) *messages.Event {
	w := &m.watch
	w.seq++
	e.Seq, e.AtUnixMs = w.seq, m.p.Clock.WallMs()
	w.keep(e, m.p.Constants.MirrorBytes)
	for i := range w.watchers {
		if wants(w.watchers[i].asked, e) {
			ctx.Send(w.watchers[i].pid, e)
		}
	}
	return e
}

// keep stores an event, and drops the oldest ones beyond the limits in number and bytes.
func (w *watch) keep(e *messages.Event, mostBytes int) {
	w.last = append(w.last, keptEvent{e, messages.Size(e)})
	w.bytes += messages.Size(e)
	gone := 0
	for ; len(w.last)-gone > mirrorEvents || len(w.last)-gone > 1 && w.bytes > mostBytes; gone++ {
		w.bytes -= w.last[gone].bytes
		w.last[gone] = keptEvent{} // so that the garbage collector frees the event
	}
	w.last = w.last[gone:]
}

// check verifies that the kept events are the last ones, without a gap.
func (w *watch) check() {
	if n := len(w.last); n > 0 && (w.last[n-1].Seq != w.seq || w.last[0].Seq != w.seq-uint64(n)+1) {
		panic("the kept events are not the last ones")
	}
}
