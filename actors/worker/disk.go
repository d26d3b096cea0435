package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// This file owns the file on the node's disk: one record that is replaced as a whole. At most one save is in progress.
// Changes during a save go into the next one. After a failed save, the node takes no new work and reports why. Its
// running tasks continue, and the Node retries with growing pauses.

// nodeDisk tracks how far the disk is behind memory.
type nodeDisk struct {
	loaded  bool   // the record has been read, so it may be replaced
	changes uint64 // number of changes of the recorded state
	saved   uint64 // the last change that is on disk for certain
	saving  bool
	seq     uint64 // of the save in progress; identifies late answers to earlier saves
	covers  uint64 // the last change that the save in progress contains
	waiting bool   // a retry is scheduled
	retry   actors.Resend
	trouble string // why the last save failed; empty: it succeeded

	// These buffers are reused, so a save allocates nothing.
	head  headBytes
	part  []byte
	bytes []byte
}

// change counts a change of the recorded state. The save follows after the message has been handled, so one save covers
// all changes of a message.
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
		n.ledger.Touch() // the node may take work again
	}
	if d.trouble != "" {
		n.p.Log.Info("The ledger can be saved again")
		d.trouble = ""
		d.retry.End()
		n.ledger.Touch()
	}
	n.covered(ctx)
}

// covered continues everything that waited for the disk.
func (n *Node) covered(ctx actor.Context) {
	var news []*nodeAllocation
	for _, l := range n.ledger.Allocations() {
		if s := n.slices[l.Token]; s.unsaved != 0 && s.unsaved <= n.disk.saved {
			s.unsaved = 0
			news = append(news, s)
		}
	}
	if len(news) > 0 {
		n.ledger.Touch() // their state in the report has changed
	}
	for _, s := range news {
		n.settle(ctx, s)
	}
	n.adopted(ctx)
	n.acceptLead(ctx)
}

// saveFailed handles a failed save. The disk then holds a complete older record or this one, and the Node does not know
// which.
func (n *Node) saveFailed(ctx actor.Context, why string) {
	d := &n.disk
	if d.trouble != why {
		n.p.Log.Info("The ledger cannot be saved, so this node takes no work: %s", why)
		n.ledger.Touch()
	}
	n.p.Host.Count("node.save_failed", 1)
	n.backOff(ctx, d.trouble == "")
	d.trouble = why
	for _, l := range n.ledger.Allocations() {
		if s := n.slices[l.Token]; n.excuse(s) {
			n.settle(ctx, s)
		}
	}
	n.acceptLead(ctx)
}

// backOff schedules the next attempt to save.
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
