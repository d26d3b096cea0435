package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the fault of one record that nobody can read: that of a job, those of a job's attempts, or that of a
// machine. The record stands in the store as it was when a leader writes it again before anybody reads it.

// recordUnreadable damages one record. In two cases of three the leader dies soon after, and the next one reads it.
// An operator notices after a while: he gives the job up, or opens the machine again.
func recordUnreadable(f *faults) bool {
	w := f.w
	if w.leader() == nil {
		return false
	}
	notices := w.luck.between(5*time.Second, w.draw.Pace)
	if m := f.pick(); m != nil && w.books.nodes[string(m.id)] != nil && w.luck.chance(0.25) {
		w.say("the record of %s cannot be read", m.address)
		w.damageNode(m)
		f.until(notices, func() { w.client.uncordon(m) })
	} else {
		id := w.someLiving()
		if id == "" {
			return false
		}
		table := "job"
		if len(w.books.jobs[id].tokens) > 0 && w.luck.chance(0.4) {
			table = "attempt"
		}
		w.say("the %s record of %s cannot be read", table, id)
		w.damage(table, id)
		f.until(notices, func() { w.client.giveUp(id) })
	}
	if w.luck.below(3) > 0 {
		w.engine.after(w.luck.skewed(time.Millisecond, 5*time.Second), func() { ofLeader(leaderCrash)(f) })
	}
	return true
}

// someLiving is the id of a job that is not over; empty if chance finds none.
func (w *World) someLiving() string {
	ids := w.books.ids
	for range min(16, len(ids)) {
		if id := ids[w.luck.below(len(ids))]; !w.books.jobs[id].record.State.Terminal() {
			return id
		}
	}
	return ""
}

func (w *World) damage(table, id string) {
	w.store.kept.Damage(table, id)
	if !slices.Contains(w.loss.damaged, id) {
		w.loss.damaged = append(w.loss.damaged, id)
	}
}

// damageNode also takes which machine it is from the books: whoever comes next by that name may be it.
func (w *World) damageNode(m *machine) {
	w.store.kept.Damage("node", string(m.id))
	if n := w.books.nodes[string(m.id)]; n != nil {
		n = copyOf(n)
		n.MachineId = ""
		w.books.nodes[n.Id] = n
	}
}

// displaced reports whether the store knows another machine under its name.
func (w *World) displaced(m *machine) bool {
	n := w.books.nodes[string(m.id)]
	return n != nil && n.Removed == nil && n.MachineId != "" && n.MachineId != m.machineID
}

// unreadable reports whether what the store has of a job cannot be read.
func (w *World) unreadable(id string) bool {
	if !slices.Contains(w.loss.damaged, id) {
		return false
	}
	_, _, err := w.store.kept.Job(topology.JobID(id))
	return errors.Is(err, store.ErrDamaged)
}

// giveUp cancels a job for as long as the store has something of it that nobody can read. A leader that has not read it
// dies, and the next one does. Of a job that is over nothing is left to give up.
func (c *client) giveUp(id string) {
	if !c.w.unreadable(id) {
		return
	}
	q := &messages.Cancel{Principal: anonymous, Job: id, Reason: "it cannot be read"}
	wish(c, q, func(r *messages.CancelReply) {
		if r.Outcome.Code != messages.Code_CODE_NOT_FOUND && c.w.unreadable(id) {
			ofLeader(leaderCrash)(c.w.faults)
			c.w.engine.after(10*time.Second, func() { c.giveUp(id) })
		}
	})
}
