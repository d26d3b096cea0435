package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file defines the fault of an unreadable record: of a job, of a job's attempts, or of a node. If a leader writes
// the record again before it is read, the record is complete again.

// recordUnreadable corrupts one record. In two of three cases the leader dies soon after, and the next one reads the
// record. After a while an operator gives the job up, or makes the node schedulable again.
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

// someLiving returns the ID of an unfinished job, or an empty string if chance finds none.
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

// damageNode also removes the host's identity from the checkers' records, because any host may take the name next.
func (w *World) damageNode(m *machine) {
	w.store.kept.Damage("node", string(m.id))
	if n := w.books.nodes[string(m.id)]; n != nil {
		n = copyOf(n)
		n.MachineId = ""
		w.books.nodes[n.Id] = n
	}
}

// displaced reports whether the store knows another host under the node's name.
func (w *World) displaced(m *machine) bool {
	n := w.books.nodes[string(m.id)]
	return n != nil && n.Removed == nil && n.MachineId != "" && n.MachineId != m.machineID
}

// unreadable reports whether the store's record of a job cannot be read.
func (w *World) unreadable(id string) bool {
	if !slices.Contains(w.loss.damaged, id) {
		return false
	}
	_, _, err := w.store.kept.Job(topology.JobID(id))
	return errors.Is(err, store.ErrDamaged)
}

// giveUp cancels a job as long as the store has an unreadable record of it. A leader that has not read the record dies,
// and the next one reads it. A finished job needs no giving up.
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
