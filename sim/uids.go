package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates files on a node under the UIDs that leaders assign. These are files of tasks that are not
// forgotten, and files that are kept for a while. They outlive restarts of the agent and of the node.

// keptTask holds the output of a forgotten task.
type keptTask struct {
	uid uint32
	job string
}

// lies returns the job whose files are on the node under a UID, or an empty string.
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

// evicts removes other jobs' files from a task's UID, as a real launcher does. It returns false if it cannot.
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

// keeps keeps some files of a task for a while.
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
		return // an idle node looks for old files only when it has something to do
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

// tellUids reports the UIDs with files to the agent, if they have changed.
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

// listens notes the agent that requested the tasks, and the UIDs in the answer.
func (l *launcher) listens(agent *process, to *actor.PID, list *messages.TaskList) {
	list.Uids = l.uids()
	l.agent, l.node, l.toldUids = agent, to, list.Uids
}

// noUIDIsFree reports whether each UID of the range belongs to an unfinished job or has files.
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

// noteLacks notes the jobs for which a leader found no free UID. It is called whenever a job stays out of the queue for
// that reason.
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

// awayFromLack returns why the checker does not judge whether a job loses its start guarantee, as far as UIDs are
// concerned.
func (w *World) awayFromLack(g *given, r *messages.JobRecord) string {
	switch {
	case w.lackedUID(g):
		return "its leader found no uid for it"
	case r.UidToCome && w.faults.byName["liar"] != nil:
		return "a node may lie about uids"
	}
	return ""
}

// lackedUID reports whether a leader found no UID for a job since it passed the job's guarantee to the Journal, or in
// the second before. Both messages were then on their way to the job. Only the leader knows whether a UID was free,
// because it may have given away some in the same pass that are not on disk yet. S28 checks at rest that no UID is held
// without a reason. L2 and L5 check that no job waits although a UID is free.
func (w *World) lackedUID(g *given) bool {
	at, lacked := w.uids.lacked[g.job]
	return lacked && at.plus(time.Second) >= g.said
}

// uidsRanOut reports whether a leader may believe that no UID is free. It learns late of a free UID if messages are
// late.
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
	none bool    // no UID was free at that instant
	last instant // when no UID was last free
	// lacked is when a leader last found no UID for a job, by job ID.
	lacked map[string]instant
}

// lying returns the UIDs with files on any node, by each node's last report.
func (w *World) lying() map[uint32]bool {
	all := map[uint32]bool{}
	for _, m := range w.machines {
		for _, uid := range append(m.launcher.uids(), m.launcher.toldUids...) {
			all[uid] = true
		}
	}
	return all
}
