package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what lies on a machine under the uids that leaders give: tasks that are not forgotten, and what is
// kept of others for a while, over restarts of the agent and of the machine.

// keptTask holds the output of a forgotten task.
type keptTask struct {
	uid uint32
	job string
}

// lies is the owner of what lies on the machine under a uid; empty: none.
func (l *launcher) lies(uid uint32) (job string) {
	for _, t := range l.order {
		if t.uid == uid {
			return t.job
		}
	}
	for _, k := range l.kept {
		if k.uid == uid {
			return k.job
		}
	}
	return ""
}

// evicts lets a task's uid have nothing under it that belongs to another job, as a real launcher does; false: it
// cannot.
func (l *launcher) evicts(t *task) bool {
	if t.uid == 0 {
		return true
	}
	for _, o := range l.order {
		if o.uid == t.uid && o.job != t.job {
			l.w.count("uid.shared", 1)
			return false
		}
	}
	l.kept = slices.DeleteFunc(l.kept, func(k *keptTask) bool { return k.uid == t.uid && k.job != t.job })
	return true
}

// keeps keeps something of a task for a while.
func (l *launcher) keeps(t *task) {
	if t.uid == 0 {
		return
	}
	k := &keptTask{t.uid, t.job}
	l.kept = append(l.kept, k)
	l.w.engine.after(l.w.kept.skewed(time.Second, l.w.draw.Kept), func() { l.m.launcher.dropKept(k) })
}

func (l *launcher) dropKept(k *keptTask) {
	if l.w.resting {
		return // a machine that is let alone looks for what is old when it has something to do
	}
	l.kept = slices.DeleteFunc(l.kept, func(o *keptTask) bool { return o == k })
	l.tellUids()
}

// inherits takes over the folders and kept outputs of the boot before.
func (l *launcher) inherits(before *launcher) {
	if before == nil {
		return
	}
	l.kept = before.kept
	for _, t := range before.order {
		l.keeps(t)
	}
}

// tellUids tells the agent under which uids anything lies, if they have changed.
func (l *launcher) tellUids() {
	if uids := l.uids(); l.agent != nil && !l.off && !slices.Equal(uids, l.toldUids) {
		l.toldUids = uids
		l.agent.tell(l.node, &messages.UidsInUse{Uids: uids})
	}
}

func (l *launcher) uids() []uint32 {
	all := map[uint32]bool{}
	for _, t := range l.order {
		all[t.uid] = true
	}
	for _, k := range l.kept {
		all[k.uid] = true
	}
	delete(all, 0)
	return slices.Sorted(maps.Keys(all))
}

// listens notes the agent that asked for the tasks, and what it is told of them.
func (l *launcher) listens(agent *process, to *actor.PID, list *messages.TaskList) {
	list.Uids = l.uids()
	l.agent, l.node, l.toldUids = agent, to, list.Uids
}

// noUIDIsFree reports whether each uid of the range belongs to a job of which anything is left to do, or has something
// lying under it.
func (w *World) noUIDIsFree() bool {
	if now := w.engine.now; w.uids.at != now {
		all := w.lying()
		for _, id := range w.books.ids {
			if page := w.books.jobs[id]; page != nil && (!page.record.State.Terminal() || w.books.owes(page)) {
				all[page.record.Uid] = true
			}
		}
		delete(all, 0)
		if w.uids.at, w.uids.none = now, len(all) >= w.draw.UIDs.Len(); w.uids.none {
			w.uids.last = now
		}
	}
	return w.uids.none
}

// noteLacks notes for which jobs a leader finds no uid free. It comes whenever a job is kept out of the queue for that.
func (w *World) noteLacks(p *process) {
	if p.leader == nil {
		return
	}
	if w.uids.lacked == nil {
		w.uids.lacked = map[string]instant{}
	}
	for _, id := range w.books.ids {
		if r := w.books.jobs[id].record; r.UidToCome && p.leader.LacksUID(topology.JobID(id)) {
			w.uids.lacked[id] = w.engine.now
		}
	}
}

// awayFromLack is why it is not judged whether a job gives up its promise, as far as uids go.
func (w *World) awayFromLack(g *given, r *messages.JobRecord) string {
	switch {
	case w.lackedUID(g):
		return "its leader found no uid for it"
	case r.UidToCome && w.faults.byName["liar"] != nil:
		return "a node may lie about uids"
	}
	return ""
}

// lackedUID reports whether a leader has found no uid for a job since it handed the job's promise to the Journal, or in
// the second before: the word of both was on its way to the job. Whether one was free then only the leader knows: it
// has given some in the same pass, which are not on disk yet. That it holds none without a reason is seen at rest
// (S28), and that no job waits for one that is free (L2, L5).
func (w *World) lackedUID(g *given) bool {
	at, lacked := w.uids.lacked[g.job]
	return lacked && at.plus(time.Second) >= g.said
}

// uidsRanOut reports whether a leader may believe that no uid is free. It hears late of one that is where letters are.
func (w *World) uidsRanOut() bool {
	late := 3 * w.constants.Heartbeat
	if w.lateUntil >= w.uids.last {
		late += w.draw.LateMost
	}
	return w.noUIDIsFree() || w.uids.last > 0 && w.engine.now.since(w.uids.last) < late
}

// uidLook holds the uids that were seen at an instant.
type uidLook struct {
	at   instant
	none bool    // is free
	last instant // when none was
	// lacked is when a leader last found none for a job, by its id.
	lacked map[string]instant
}

// lying are the uids under which anything lies on any machine, by what each of them has said.
func (w *World) lying() map[uint32]bool {
	all := map[uint32]bool{}
	for _, m := range w.machines {
		for _, uid := range append(m.launcher.uids(), m.launcher.toldUids...) {
			all[uid] = true
		}
	}
	return all
}
