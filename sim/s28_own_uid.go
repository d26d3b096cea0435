package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// ownUID is S28: a job without a user, or with user root, gets its own UID when it starts. The UID is on disk before
// the first Reserve. The job keeps it for life, and its tasks have it on every node. No two unfinished jobs have the
// same UID. A UID is reused only after the range has been used up, and while no node keeps files of another job under
// it.
//
// The leader cannot know kept files of a node that does not report or has just returned. It also cannot know them if
// the agent or the leader is of the previous version. Such a node removes the files of the last job before the next one
// starts. At rest the leader holds exactly the UIDs in use.
type ownUID struct {
	rule
	given map[uint32]givenUID
	sent  map[topology.Token]instant // when the first Commit of an attempt was sent
	muted map[topology.Token]bool    // sent by a leader of the previous version, which sends no UID
}

// givenUID is the job that last got a UID.
type givenUID struct {
	job  string
	turn uint64
}

// ofItsOwn lists the users in the runs whose jobs have their own UID.
var ofItsOwn = []string{"", "root", "0:0"}

func newOwnUID() *ownUID {
	return &ownUID{rule: rule{"S28 own-uid", on{Stored, Sent, TaskSpawned, Scanned}}, given: map[uint32]givenUID{},
		sent: map[topology.Token]instant{}, muted: map[topology.Token]bool{}}
}

func (c *ownUID) clauses() []clause {
	return []clause{{"spawned", isActive, c.awayFromLatest}}
}

// awayFromSpawn returns why the UIDs of a job's latest attempt are not judged on a node.
func (c *ownUID) awayFromSpawn(w *World, page *jobPage, m *machine, t topology.Token) string {
	switch {
	case c.muted[t] || m.wasOld(c.sent[t]):
		return "an earlier version lost its uid"
	case w.loss.tokens[t] || page.record.UidToCome && w.hasLostRun(page.record.Id):
		return "the store has lost a run of it"
	}
	return ""
}

// awayFromLatest returns the same for all nodes of the latest attempt.
func (c *ownUID) awayFromLatest(w *World, page *jobPage) (why string) {
	if a := w.books.latest(page); a != nil {
		for _, p := range a.Places {
			if m := w.machine(p.Node); m != nil {
				why = cmp.Or(why, c.awayFromSpawn(w, page, m, messages.FromToken(a.Token)))
			}
		}
	}
	return why
}

// noteSent notes when the first Commit of an attempt was sent, and whether a leader of the previous version sent any.
func (c *ownUID) noteSent(w *World, p *process, t topology.Token) {
	if c.sent[t] == 0 {
		c.sent[t] = w.engine.now
	}
	if p.old {
		c.muted[t] = true
	}
}

// awayAtRest reports whether the leader or an agent is of the previous version. Such an agent does not report kept
// files, and such a leader ignores the report.
func (*ownUID) awayAtRest(w *World) bool {
	return w.leader().old || slices.ContainsFunc(w.machines, func(m *machine) bool { return m.old })
}

// restored drops everything that the store has lost.
func (c *ownUID) restored(w *World) {
	clear(c.given)
	for _, id := range w.books.ids {
		if page := w.books.jobs[id]; page != nil && page.record.Uid != 0 {
			c.given[page.record.Uid] = givenUID{id, page.record.UidTurn}
		}
	}
}

func (c *ownUID) Step(w *World, e *Event) {
	switch e.Kind {
	case Scanned:
		if w.draw.UIDs.Len() <= len(w.books.ids) {
			w.noUIDIsFree() // it notes when no UID was free
		}
		return
	case TaskSpawned:
		c.onSpawned(w, e.Machine, e.Task)
		return
	case Sent:
		if m, is := e.Message.(*messages.Commit); is {
			c.noteSent(w, e.Process, messages.FromToken(m.Order.Token))
		}
		m, is := e.Message.(*messages.Reserve)
		if page := w.books.jobs[m.GetOrder().GetJob()]; is && page != nil && page.record.UidToCome {
			c.violate(w, "job %s reserves before its UID is on disk", page.record.Id)
		}
		return
	}
	job, was := e.Stored.job, e.Stored.jobWas
	switch {
	case job == nil || w.draw.UIDs == (topology.UIDRange{}):
	case was == nil:
		needs := job.Spec.Array == nil && slices.Contains(ofItsOwn, job.Spec.User)
		if job.Uid != 0 || job.UidToCome != needs {
			c.violate(w, "job %s, of user %q, was accepted with UID %d, and a UID will be assigned: %t",
				job.Id, job.Spec.User, job.Uid, job.UidToCome)
		}
	case was.Uid == 0 && job.Uid != 0:
		if !was.UidToCome || job.UidToCome || !w.draw.UIDs.Has(job.Uid) {
			c.violate(w, "job %s, of user %q, was assigned UID %d", job.Id, job.Spec.User, job.Uid)
		}
		c.onGiven(w, e.Stored, job)
	case job.Uid != was.Uid || job.UidToCome != was.UidToCome:
		c.violate(w, "job %s had UID %d, and now has UID %d", job.Id, was.Uid, job.Uid)
	}
}

func (c *ownUID) onGiven(w *World, s *stored, job *messages.JobRecord) {
	last, again := c.given[job.Uid]
	if c.given[job.Uid] = (givenUID{job.Id, job.UidTurn}); !again {
		return // and no node can keep files under it
	}
	if job.UidTurn-last.turn < uint64(w.draw.UIDs.Len()) {
		c.violate(w, "job %s was assigned UID %d, %d assignments after job %s had it, in a range of %d", job.Id, job.Uid,
			job.UidTurn-last.turn, last.job, w.draw.UIDs.Len())
	}
	// Of an unreadable job the leader knows only the files on nodes.
	if page := w.books.jobs[last.job]; page != nil && !w.unreadable(last.job) &&
		(!page.record.State.Terminal() || w.books.owes(page)) {
		c.violate(w, "job %s was assigned UID %d of job %s, which is %v", job.Id, job.Uid, last.job, page.record.State)
	}
	for _, m := range w.machines {
		if whose := m.launcher.lies(job.Uid); whose != "" && whose != job.Id && c.knew(w, s, m) {
			c.violate(w, "job %s was assigned UID %d, under which job %s has files on %s",
				job.Id, job.Uid, whose, m.address)
		}
	}
}

// knew reports whether the leader must have known the files on a node when it decided.
func (c *ownUID) knew(w *World, s *stored, m *machine) bool {
	h := s.proc.host
	if h == nil || s.proc.dead || s.proc.old || m.proc == nil || m.proc.old || m.proc.paused || m.gone || m.lied {
		return false
	}
	return h.heardSince(m, s.decided, 200*time.Millisecond)
}

// onSpawned compares a new process with the other processes on its node.
func (c *ownUID) onSpawned(w *World, m *machine, t *task) {
	page := w.books.jobs[t.job]
	if page == nil || c.awayFromSpawn(w, page, m, t.key.Token) != "" {
		return // The store has lost it, or there is nothing to compare.
	}
	if t.uid != page.record.Uid {
		c.violate(w, "%v of job %s runs with UID %d on %s, but its record has UID %d",
			t.key, t.job, t.uid, m.address, page.record.Uid)
	}
	for _, o := range m.launcher.order {
		if o.uid == t.uid && o.job != t.job && t.uid != 0 {
			c.violate(w, "%v of job %s runs with UID %d on %s, as does %v of job %s",
				t.key, t.job, t.uid, m.address, o.key, o.job)
		}
	}
}

// Quiet compares the UIDs that the leader holds with the UIDs in use.
func (c *ownUID) Quiet(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil || w.draw.UIDs == (topology.UIDRange{}) || c.awayAtRest(w) {
		return
	}
	want := map[uint32]string{}
	for _, id := range w.books.ids {
		if page := w.books.jobs[id]; page != nil && (!page.record.State.Terminal() || w.books.owes(page)) {
			want[page.record.Uid] = "a record of " + id
		}
	}
	unheard := false
	for _, m := range w.machines {
		if m.proc == nil || m.gone || m.lied {
			unheard = true // its last report still counts, and its present files are unknown
			continue
		}
		for _, uid := range m.launcher.uids() {
			want[uid] = "what lies on " + m.address
		}
	}
	for uid := w.draw.UIDs.First; uid <= w.draw.UIDs.Last; uid++ {
		switch holds := p.leader.HoldsUID(uid); {
		case want[uid] != "" && !holds:
			c.violate(w, "UID %d is free, but job %s has it", uid, want[uid])
		case want[uid] == "" && holds && !unheard:
			c.violate(w, "UID %d is held, but no job or file uses it", uid)
		}
	}
}
