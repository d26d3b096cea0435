package worker

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the startup of the Node, from the disk to the first message. The record is compared with the
// launcher's list of tasks, and the Node sends nothing before both agree. No task starts here. A task that was never
// started waits for a Start that this incarnation receives.

// onDiskLoaded reads the record. A corrupt record is set aside and the node begins empty. That is safe, because every
// task is stopped first. A record of a newer agent is an error instead, because its tasks are intact.
func (n *Node) onDiskLoaded(ctx actor.Context, m actors.DiskLoaded) {
	if !n.states.In(nodeLoading) || n.disk.waiting {
		return
	}
	if m.Err != "" {
		n.p.Log.Info("The ledger cannot be read: %s", m.Err)
		n.backOff(ctx, n.disk.trouble == "")
		n.disk.trouble = m.Err
		return
	}
	n.disk.trouble = ""
	n.record = &messages.LedgerRecord{BootId: n.p.Incarnation.GetBootId()}
	if len(m.Data) > 0 {
		record, err := decodeRecord(m.Data)
		switch {
		case errors.Is(err, errRecordNewer):
			panic(err)
		case err != nil:
			n.quarantine(err)
		default:
			n.record = record
		}
	}
	n.epoch, n.newer = n.record.Epoch, messages.Newer(n.record)
	n.recall()
	n.states.Become("loaded", nodeListing)
	n.p.Launcher.Tell(&messages.ListTasks{}, ctx.Self())
}

func (n *Node) quarantine(why error) {
	n.p.Log.Info("The ledger is corrupted and moved aside, and its tasks are stopped: %v", why)
	n.p.Host.Count("node.quarantined", 1)
	n.p.Disk.Quarantine()
}

// onTaskList reconciles the record with the launcher.
func (n *Node) onTaskList(ctx actor.Context, m *messages.TaskList) {
	if !n.states.In(nodeListing) {
		return
	}
	known := map[topology.TaskKey]*messages.TaskEntry{}
	for _, e := range m.Tasks {
		known[e.GetId().Key()] = e
	}
	n.rebooted = n.record.BootId != n.p.Incarnation.GetBootId() && len(n.record.Slices) > 0
	if err := n.enter(known); err != nil {
		n.quarantine(err)
		n.rebooted, n.record.Slices = false, nil
	}
	if n.record.BootId != n.p.Incarnation.GetBootId() {
		n.change()
	} else {
		n.withdrawAgain()
	}
	n.disk.loaded, n.record, n.uids, n.health = true, nil, m.Uids, m.Health
	n.states.Become("listed", nodeAdopting)
	n.stopStrays(ctx, m.Tasks)
	n.takeUp(ctx, known)
	n.adopted(ctx)
}

// withdrawAgain keeps a faulty device out of service within one boot. A reboot resets the device. If it is still
// faulty, the watch reports it again.
func (n *Node) withdrawAgain() {
	for _, id := range n.record.WithdrawnGpus {
		n.ledger.Withdraw(topology.GPUID(id))
	}
}

// enter puts the record's allocations into the ledger, in their present state. If one does not fit, the record belongs
// to another node, and the ledger stays empty.
func (n *Node) enter(known map[topology.TaskKey]*messages.TaskEntry) error {
	for _, r := range n.record.Slices {
		l := allocationOf(r)
		exits := exitsOf(r)
		if n.rebooted {
			n.endByReboot(&l, exits, known)
		} else {
			l.State = stateNow(l, known)
		}
		if err := n.ledger.Adopt(l); err != nil {
			faulted := n.ledger.WithdrawnGPUs()
			n.ledger, n.slices = n.emptyLedger(), map[topology.Token]*nodeAllocation{}
			for _, id := range faulted {
				n.ledger.Withdraw(id)
			}
			return err
		}
		n.enterAllocation(r, l, exits)
	}
	return nil
}

func (n *Node) enterAllocation(r *messages.SliceRecord, l topology.Allocation, exits map[topology.Rank]*messages.Exit) {
	s := n.newAllocation(n.ledger.Allocation(l.Token))
	s.spec, s.uid, s.owner, s.proven, s.cause = r.Spec, r.Uid, r.Owner, r.OwnerProven, r.Cause
	s.grace = actors.GraceOf(r.Spec, n.p.Constants).Milliseconds()
	s.despite, s.newer = r.DespiteUnwell, messages.Newer(r)
	s.inherited = r.Inherited
	s.reserved = actors.Instant(r.ReservedNs) // after a reboot all allocations have ended, and this is never sent
	for i := range s.ranks {
		s.ranks[i].exit, s.ranks[i].ended = exits[s.ranks[i].rank], n.p.Clock.Now()
		s.ranks[i].shown = s.ranks[i].exit != nil && !n.rebooted
		if s.ranks[i].exit != nil && !n.rebooted {
			s.ranks[i].began = actors.Instant(r.GoneBeganNs) // start of the last ended rank, the only start that counts
		}
	}
	if r.HeldUntilNs > 0 && !n.rebooted && l.State == topology.AllocationStopping && s.page.AllGone() {
		s.hold = keeping{until: actors.Instant(r.HeldUntilNs), shown: true}
	}
	if n.rebooted {
		s.shown = messages.FromAllocationState(r.State)
		n.changed(s)
	}
	n.slices[l.Token] = s
}

func exitsOf(r *messages.SliceRecord) map[topology.Rank]*messages.Exit {
	exits := map[topology.Rank]*messages.Exit{}
	for _, e := range r.Exits {
		// An earlier version stored the launcher's text unchanged, and leaders reject such text.
		e.Detail = messages.AsText(e.Detail)
		exits[topology.Rank(e.Rank)] = e
	}
	return exits
}

// endByReboot ends an allocation of an earlier boot, whatever the record says. An exit that the launcher recorded takes
// precedence.
func (n *Node) endByReboot(l *topology.Allocation, exits map[topology.Rank]*messages.Exit,
	known map[topology.TaskKey]*messages.TaskEntry) {
	l.State = topology.AllocationEnded
	for i := range l.Grants {
		rank := l.Grants[i].Rank
		if exits[rank] == nil {
			exits[rank] = &messages.Exit{
				Rank: int32(rank), Kind: messages.ExitKind_EXIT_KIND_REBOOTED, AtUnixMs: n.p.Clock.WallMs(),
			}
			if seen := known[topology.TaskKey{Token: l.Token,
				Rank: rank}].GetExit(); seen.GetKind() == messages.ExitKind_EXIT_KIND_EXITED {
				exits[rank] = seen
			}
		}
		l.Grants[i].Gone = true
	}
}

// stateNow returns an allocation's state after a restart of the agent within one boot. The state is started only if
// every remaining rank was started. Otherwise the leader must send Start again, so the allocation returns to the state
// committed.
func stateNow(l topology.Allocation, known map[topology.TaskKey]*messages.TaskEntry) topology.AllocationState {
	if l.State == topology.AllocationStopping || l.State == topology.AllocationEnded {
		return l.State
	}
	for _, g := range l.Grants {
		if !g.Gone && !known[topology.TaskKey{Token: l.Token, Rank: g.Rank}].GetStarted() {
			return topology.AllocationCommitted
		}
	}
	return topology.AllocationStarted
}

// stopStrays stops the tasks that the launcher has and the ledger does not have. Each task gets the stop signal and
// grace of its job, because a default may be too short to save work or too long. Their devices become free only after
// all of them have ended. Until then the Node does not know which devices they use, and it sends nothing.
func (n *Node) stopStrays(ctx actor.Context, tasks []*messages.TaskEntry) {
	n.strays = map[topology.TaskKey]bool{}
	for _, e := range tasks {
		key := e.GetId().Key()
		if s := n.slices[key.Token]; s != nil && s.rank(key.Rank) != nil || e.Exit != nil && n.isBequest(key) {
			continue
		}
		if e.Exit != nil {
			n.p.Launcher.Tell(&messages.ForgetTask{Id: e.Id}, ctx.Self())
			continue
		}
		n.p.Log.Info("Task %v/%d has no allocation and is stopped", key.Token, key.Rank)
		n.strays[key] = true
		grace := actors.GraceOf(&messages.JobSpec{Stop: e.Stop}, n.p.Constants)
		n.p.Launcher.Tell(&messages.StopTask{Id: e.Id, Signal: e.Stop.GetSignal(), GraceMs: grace.Milliseconds()}, ctx.Self())
	}
}

func (n *Node) onStrayGone(ctx actor.Context, m *messages.TaskGone) {
	key := m.GetId().Key()
	if !n.strays[key] {
		return
	}
	delete(n.strays, key)
	n.p.Launcher.Tell(&messages.ForgetTask{Id: m.Id}, ctx.Self())
	n.adopted(ctx)
}

// takeUp creates a Task for every rank that has not ended. A started rank is adopted, and a stopping rank is stopped. A
// rank that was not started is prepared, if necessary after a check of the node.
func (n *Node) takeUp(ctx actor.Context, known map[topology.TaskKey]*messages.TaskEntry) {
	for _, l := range n.ledger.Allocations() {
		s := n.slices[l.Token]
		n.awaitHeir(ctx, s)
		for i := range s.ranks {
			r := &s.ranks[i]
			if r.exit != nil {
				continue
			}
			entry := known[topology.TaskKey{Token: s.page.Token, Rank: r.rank}]
			spawned := entry.GetStarted()
			n.spawnTask(ctx, s, i, spawned)
			switch {
			case l.State == topology.AllocationStopping:
				r.started = spawned
				ctx.Send(r.pid, taskStop{s.spec.GetStop().GetSignal(), s.grace})
			case spawned:
				r.adopting, r.told = true, true
				ctx.Send(r.pid, taskAdopt{})
			case entry == nil && l.State == topology.AllocationCommitted && n.awaitsCheck(ctx, s): // settle continues
			default:
				r.asked = true
				ctx.Send(r.pid, taskPrepare{})
			}
		}
	}
}

// adopted lets the Node send messages once nothing is in doubt.
func (n *Node) adopted(ctx actor.Context) {
	if !n.states.In(nodeAdopting) || len(n.strays) > 0 || n.rebooted && n.disk.saved < n.disk.changes {
		return
	}
	for _, l := range n.ledger.Allocations() {
		for _, r := range n.slices[l.Token].ranks {
			if r.adopting {
				return
			}
		}
	}
	n.strays = nil
	n.states.Become("adopted", nodeAlone)
	n.acceptLead(ctx)
}
