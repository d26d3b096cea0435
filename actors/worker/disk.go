package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// This file owns what is on the machine's disk: one record, written whole. At
// most one save is under way; what changes meanwhile is in the next. After a failed save the machine is in trouble: it
// takes no new work, says why, lets running tasks go on, and tries again after growing pauses.

// nodeDisk tracks how far the disk is behind memory.
type nodeDisk struct {
	loaded  bool   // the record is known, so that it may be replaced
	changes uint64 // of what the record holds
	saved   uint64 // the last change that is certainly on disk
	saving  bool
	seq     uint64 // of the save under way, so that a late answer to an earlier one is known
	covers  uint64 // the last change that the save under way holds
	waiting bool   // a retry is armed
	retry   actors.Resend
	trouble string // why the last save failed; empty: it succeeded

	// The buffers of the next save, so that a save allocates nothing.
	head  headBytes
	part  []byte
	bytes []byte
}

// change counts a change of what the record holds; the save follows once the message has been handled, so that one save
// covers all that it changed.
func (n *Node) change() uint64 {
	n.disk.changes++
	return n.disk.changes
}

// save starts the next save if one is due.
func (n *Node) save(ctx actor.Context) {
	d := &n.disk
	if !d.loaded || d.saving || d.waiting || d.saved == d.changes {
		return
	}
	d.saving = true
	d.seq++
	d.covers = d.changes
	n.p.Disk.Save(d.seq, n.encodeBooks(), ctx.Self())
}

func (n *Node) onDiskSaved(ctx actor.Context, m actors.DiskSaved) {
	d := &n.disk
	if !d.saving || m.Seq != d.seq {
		return
	}
	d.saving = false
	if m.Err != "" {
		n.saveFailed(ctx, m.Err)
		return
	}
	wasSworn := n.sworn()
	d.saved = d.covers
	if n.sworn() && !wasSworn {
		n.ledger.Touch() // it may take work again
	}
	if d.trouble != "" {
		n.p.Log.Info("The ledger can be saved again")
		d.trouble = ""
		d.retry.End()
		n.ledger.Touch()
	}
	n.covered(ctx)
}

// covered continues with all that waited for the disk.
func (n *Node) covered(ctx actor.Context) {
	var news []*nodeSlice
	for _, l := range n.ledger.Slices() {
		if s := n.slices[l.Token]; s.unsaved != 0 && s.unsaved <= n.disk.saved {
			s.unsaved = 0
			news = append(news, s)
		}
	}
	if len(news) > 0 {
		n.ledger.Touch() // the report shows them differently now
	}
	for _, s := range news {
		n.settle(ctx, s)
	}
	n.adopted(ctx)
	n.acceptLead(ctx)
}

// saveFailed: the disk holds either a whole older record or this one; which, is unknown.
func (n *Node) saveFailed(ctx actor.Context, why string) {
	d := &n.disk
	if d.trouble != why {
		n.p.Log.Info("The ledger cannot be saved, so this node takes no work: %s", why)
		n.ledger.Touch()
	}
	n.p.Host.Count("node.save_failed", 1)
	n.backOff(ctx, d.trouble == "")
	d.trouble = why
	for _, l := range n.ledger.Slices() {
		if s := n.slices[l.Token]; n.excuse(s) {
			n.settle(ctx, s)
		}
	}
	n.acceptLead(ctx)
}

// backOff arms the next try.
func (n *Node) backOff(ctx actor.Context, first bool) {
	d := &n.disk
	d.waiting = true
	if first {
		d.retry.Begin(ctx, &n.p.Ports)
		return
	}
	d.retry.Later(ctx, &n.p.Ports)
}

func (n *Node) onRetry(ctx actor.Context, m actors.ResendDue) {
	if !n.disk.retry.Due(m) || !n.disk.waiting {
		return
	}
	n.disk.waiting = false
	if n.states.In(nodeLoading) {
		n.p.Disk.Load(ctx.Self())
	}
}
