package scheduler

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns nodes in the Scheduler: joins, losses and returns, orders and removals, and the reports to jobs about
// their allocations.

// nodeEdit is one change of a node's record. The function after runs when the change is on disk.
type nodeEdit struct {
	change func(*messages.NodeRecord)
	after  func(actor.Context)
}

// nodeEdits holds the changes of one node's record. One write is in flight at a time, and it carries all changes that
// came during the last one.
type nodeEdits struct {
	waiting, written []nodeEdit
	next             *messages.NodeRecord
	reread           bool            // the record on disk is not the last one written
	hello            *messages.Hello // to be welcomed when its record is on disk
	pid              *actor.PID
}

func (s *Scheduler) expectMachine(ctx actor.Context, rec *messages.NodeRecord) {
	m := s.machine(topology.NodeID(rec.Id))
	m.record = rec
	s.awaited++
	s.view.Join(m.room, m.describe(s.levels), m.standing())
	s.view.Settle(m.room, m.standing())
	s.house(ctx, m)
	ctx.Send(m.rack, protocol.Expect{Node: m.id})
	s.armDrain(ctx, m)
	s.armClosing(ctx, m)
	s.showNode(ctx, m)
}

func (s *evidence) machine(id topology.NodeID) *machine {
	m := s.machines[id]
	if m == nil {
		m = &machine{id: id, halted: s.halted(), room: s.view.Machine(id)}
		s.machines[id] = m
		s.order = append(s.order, m)
	}
	return m
}

// house finds the domain of a node and the Rack that hears it.
func (s *nodeTable) house(ctx actor.Context, m *machine) {
	name := m.rackOf(s.levels)
	pid := s.racks[name]
	if pid == nil {
		pid = actors.Spawn(ctx, &s.p.Ports, actors.KindRack, actors.RackName(name), func() actor.Actor {
			return s.makers.Rack(s.p, name, s.self)
		})
		s.racks[name] = pid
	}
	if m.rack != nil && !m.rack.Equal(pid) {
		ctx.Send(m.rack, protocol.Expel{Node: m.id}) // otherwise its former Rack would declare it dead
	}
	m.rack, m.finest = pid, m.finestPlace(s.levels)
}

// onHello admits a node after its record is on disk.
func (s *Scheduler) onHello(ctx actor.Context, h *messages.Hello) {
	if s.foreign(h) {
		s.turnForeignAway(ctx, h)
		return
	}
	if s.states.In(schedulerLoading) || h.Epoch != s.p.Epoch {
		s.p.Host.Count("scheduler.other_epoch", 1)
		if h.Epoch > s.p.Epoch && !s.states.In(schedulerLoading) {
			s.followsAnother(ctx, h)
		}
		return
	}
	if h.Ledger == nil {
		s.p.Host.Count("scheduler.old_lead", 1) // it answers an earlier leader at this address
		return
	}
	if err := h.Validate(); err != nil {
		s.p.Log.Error("Failed to register node %s: %s", h.Origin.GetNode(), err)
		s.reject(ctx, h, messages.RejectReason_REJECT_REASON_MALFORMED, err.Error())
		return
	}
	m := s.machine(topology.NodeID(h.Origin.Node))
	known := m.record
	if m.edits.next != nil {
		known = m.edits.next
	}
	if known != nil && known.Removed == nil && known.MachineId != "" && known.MachineId != h.Origin.MachineId {
		s.turnAway(ctx, m, h)
		return
	}
	delete(s.greetings.unheard, m.id)
	if m.outlived(h.Origin.Incarnation) {
		s.p.Host.Count("scheduler.old_hello", 1)
		return
	}
	if m.changed(h, known) {
		m.untruth = "announcement differs from an earlier one of the same agent start"
		s.disbelieve(ctx, m, m.untruth)
		s.refresh(ctx, m)
		return
	}
	m.edits.hello, m.edits.pid = h, ctx.Sender()
	if m.edits.next == nil && known != nil && sameMachine(known, h) {
		s.welcome(ctx, m)
		return
	}
	s.edit(ctx, m, nodeEdit{
		change: func(r *messages.NodeRecord) {
			if r.MachineId != h.Origin.MachineId && r.Cordoned.GetBy().GetName() == closer {
				r.Cordoned = nil // operators' entries for the name stay, but not the fault of its last machine
			}
			if r.JoinedUnixMs == 0 || r.Removed != nil {
				r.JoinedUnixMs = s.p.Clock.WallMs()
			}
			r.MachineId, r.BootId, r.Announcement, r.Removed = h.Origin.MachineId, h.Origin.Incarnation.BootId, h.Announcement,
				nil
		},
		after: func(ctx actor.Context) {
			// A newer Hello announces other resources, and its record is written next. If the node were welcomed with this
			// record, it would be planned with the old resources.
			if newest := m.edits.hello; newest != nil && sameMachine(m.record, newest) {
				s.welcome(ctx, m)
			}
		},
	})
}

func sameMachine(r *messages.NodeRecord, h *messages.Hello) bool {
	return r.Removed == nil && r.BootId == h.Origin.Incarnation.BootId && proto.Equal(r.Announcement, h.Announcement)
}

// turnAway refuses another machine under a known name. The leader keeps asking while the link is up, because the name
// may become free. The refusal is logged once.
func (s *nodeTable) turnAway(ctx actor.Context, m *machine, h *messages.Hello) {
	const text = "node already registered"
	if m.turnedAway != h.Origin.MachineId {
		m.turnedAway = h.Origin.MachineId
		s.p.Log.Error("Failed to register node %s: %s", m.id, text)
	}
	s.reject(ctx, h, messages.RejectReason_REJECT_REASON_ANOTHER_MACHINE, text)
}

func (s *base) reject(ctx actor.Context, h *messages.Hello, why messages.RejectReason, text string) {
	ctx.Respond(&messages.Rejected{Epoch: s.p.Epoch, Reason: why, Text: text, Incarnation: h.Origin.GetIncarnation()})
}

// welcome accepts a node's Hello as its true state. Unconfirmed allocations are settled before the node gets new work,
// so the jobs are notified first.
func (s *Scheduler) welcome(ctx actor.Context, m *machine) {
	h := m.edits.hello
	if h == nil {
		return // an earlier write included it
	}
	m.edits.hello = nil
	fresh := !messages.SameIncarnation(m.incarnation, h.Origin.Incarnation)
	if !m.everUp {
		s.awaited = max(s.awaited-1, 0)
	}
	if fresh {
		if last := m.incarnation.GetBootId(); last != "" && last != h.Origin.Incarnation.BootId {
			m.pastBoots = append(m.pastBoots[max(len(m.pastBoots)-pastBootsKept+1, 0):], last)
		}
		m.incarnation, m.ledger = h.Origin.Incarnation, nil
		m.room.Restart()
	}
	m.up, m.everUp, m.obeys, m.vocabulary = true, true, 0, h.Vocabulary
	if m.doubt != h.Doubt && h.Doubt != "" {
		s.p.Host.Count("scheduler.doubted", 1)
		s.p.Log.Info("QUARANTINED: %s: %s", m.id, h.Doubt)
	}
	m.doubt = h.Doubt
	if h.Ledger.Version >= m.room.Version() {
		s.overhaul(ctx, m, h.Ledger)
	}
	s.house(ctx, m)
	m.enrolled++
	ctx.Send(m.rack, protocol.Enrol{Hello: h, Node: m.edits.pid, Count: m.enrolled})
	s.sightAll(ctx, m)
	again := s.decides(m, h.Users)
	s.view.Join(m.room, m.describe(s.levels), m.standing())
	s.refresh(ctx, m)
	if again {
		s.chooseAnew(ctx)
	}
	if s.states.In(schedulerRecovering) {
		s.heardAll(ctx)
	}
}

// sightAll reports to every job what the node holds of it, and what it does not hold.
func (s *evidence) sightAll(ctx actor.Context, m *machine) {
	for _, sl := range m.ledger.Slices {
		s.sight(ctx, m, topology.JobID(sl.Job), messages.FromToken(sl.Token), sl)
	}
	// The loop uses a copy, because the report to a finished job ends its tenancy.
	for _, t := range slices.Clone(m.room.Tenants()) {
		if !t.Spare && m.slice(t.Token) == nil {
			s.sight(ctx, m, t.Job, t.Token, nil)
		}
	}
}

func (s *evidence) sight(ctx actor.Context, m *machine, job topology.JobID, t topology.Token,
	sl *messages.SliceReport) {
	e := s.jobs[job]
	switch {
	case s.damaged[job] != nil: // the damaged job keeps its allocations
	case e == nil:
		s.sightOrphan(ctx, m, job, t, sl)
	case committed(sl) && s.unheardOf(e, t):
		s.askStore(orphan{m.id, job, t})
	default:
		s.tellSight(ctx, m, e, t, sl)
	}
}

func (s *jobTable) tellSight(ctx actor.Context, m *machine, e *livingJob, t topology.Token, sl *messages.SliceReport) {
	if e.pid != nil && !e.remakes {
		ctx.Send(e.pid, protocol.Sighted{
			Node: m.id, MachineID: m.record.MachineId, Incarnation: m.incarnation, Vocabulary: m.vocabulary,
			Token: t, Version: m.room.Version(), Allocation: sl, Heard: m.reportedAt,
		})
	}
}

// resight reports to a recreated Job what all its nodes hold.
func (s *Scheduler) resight(ctx actor.Context, e *livingJob) {
	for _, m := range s.order {
		for _, t := range m.room.Tenants() {
			if t.Job == e.id && !t.Spare {
				// The earlier actor may have been the only one to know that nothing is left of the attempt.
				s.doubtLater(ctx, protocol.Claim{Job: e.id, Token: t.Token, Targets: []protocol.Target{{Node: m.id}}})
			}
			switch {
			case t.Job != e.id || t.Spare:
			case m.up:
				s.sight(ctx, m, e.id, t.Token, m.slice(t.Token))
			case m.everUp:
				ctx.Send(e.pid, protocol.NodeLost{Node: m.id, SilentSince: s.p.Clock.Now()})
			}
		}
	}
}

// sightOrphan handles an allocation of a job without an actor. The job has finished, and its evidence or the operator's
// statement is on disk. If the store does not contain the attempt, the store is behind.
func (s *evidence) sightOrphan(ctx actor.Context, m *machine, job topology.JobID, t topology.Token,
	sl *messages.SliceReport) {
	switch {
	case sl == nil:
		m.room.Evict(t)
	case committed(sl) && !s.issued(t) && !s.givenUp(t):
		s.askStore(orphan{m.id, job, t})
	default:
		s.endOrphan(ctx, m, job, t, sl)
	}
}

// endOrphan makes a node stop and forget an ended attempt.
func (s *nodeTable) endOrphan(ctx actor.Context, m *machine, job topology.JobID, t topology.Token,
	sl *messages.SliceReport) {
	order := &messages.Order{
		Epoch: s.p.Epoch, Token: messages.ToToken(t), Job: string(job), Node: string(m.id), Incarnation: m.incarnation,
	}
	to := s.p.Peers.Node(m.id)
	switch sl.State {
	case messages.SliceState_SLICE_STATE_RESERVED:
		ctx.Request(to, &messages.Abort{Order: order})
	case messages.SliceState_SLICE_STATE_OVER:
		ctx.Request(to, &messages.Forget{Order: order})
	default:
		s.p.Host.Count("scheduler.orphan_stopped", 1)
		ctx.Request(to, &messages.Stop{Order: order, Cause: messages.Cause_CAUSE_REMOVED,
			GraceMs: s.p.Constants.StopGrace.Milliseconds()})
	}
}

// onReported stores a newer ledger and reports changes to the affected jobs.
func (s *Scheduler) onReported(ctx actor.Context, r protocol.Reported) {
	m := s.machines[r.Node]
	if m == nil || !m.up || !messages.SameIncarnation(m.incarnation, r.Incarnation) ||
		r.Ledger.Version < m.room.Version() {
		return
	}
	s.overhaul(ctx, m, r.Ledger)
	for _, sl := range r.Ledger.Slices {
		job := topology.JobID(sl.Job)
		if len(sl.Exits) > 0 || sl.State == messages.SliceState_SLICE_STATE_OVER || s.jobs[job] == nil ||
			m.room.Tenant(messages.FromToken(sl.Token)) == nil {
			s.sight(ctx, m, job, messages.FromToken(sl.Token), sl)
		}
		s.checkDevices(ctx, m, sl)
	}
	s.refresh(ctx, m)
}

// checkDevices ends the gang on a device that the node has withdrawn.
func (s *jobTable) checkDevices(ctx actor.Context, m *machine, sl *messages.SliceReport) {
	if len(m.ledger.WithdrawnGpus) == 0 || sl.State > messages.SliceState_SLICE_STATE_STARTED ||
		m.room.Tenant(messages.FromToken(sl.Token)) == nil {
		return // or the leader did not place the gang on this node
	}
	gone := map[string]bool{}
	for _, id := range m.ledger.WithdrawnGpus {
		gone[id] = true
	}
	e := s.jobs[topology.JobID(sl.Job)]
	for _, g := range sl.Grants {
		for _, share := range g.Gpus {
			if gone[share.GpuId] && e != nil && e.pid != nil {
				ctx.Send(e.pid, protocol.MoveOff{Node: m.id, Cause: messages.Cause_CAUSE_GPU_FAULT,
					Detail: "device " + share.GpuId +
						" on " + string(m.id) + " failed"})
				return
			}
		}
	}
}

func (s *Scheduler) onLost(ctx actor.Context, l protocol.Lost) {
	m := s.machines[l.Node]
	if m == nil || l.Count != m.enrolled {
		return // it has sent Hello in the meantime, and its Rack will learn of that
	}
	if !m.everUp {
		s.awaited = max(s.awaited-1, 0)
	}
	m.up, m.everUp = false, true
	s.forgetHealth(ctx, m)
	if s.behind.why == "" && m.obeys == 0 { // otherwise silence proves nothing: the node may follow another leader
		for _, e := range s.tenantsOf(m) {
			ctx.Send(e.pid, protocol.NodeLost{Node: m.id, SilentSince: l.SilentSince})
		}
	}
	s.refresh(ctx, m)
	if s.states.In(schedulerRecovering) {
		s.heardAll(ctx)
	}
}

// onChangeNode executes an operator's request, and answers when the change is on disk.
func (s *Scheduler) onChangeNode(ctx actor.Context, q *messages.ChangeNode) {
	reply := func(code messages.Code, text, hint string) {
		ctx.Respond(
			&messages.ChangeNodeReply{Node: q.Node, Outcome: &messages.Outcome{Code: code, Field: "node", Text: text,
				Hint: hint}})
	}
	m := s.machines[topology.NodeID(q.Node)]
	if err := q.Validate(); err != nil {
		reply(messages.Code_CODE_INVALID, err.Error(), "")
		return
	}
	if s.states.In(schedulerLoading) {
		reply(messages.Code_CODE_UNAVAILABLE, "this leader has just taken over and is not ready",
			"try again in a few seconds")
		return
	}
	if m == nil || m.record == nil {
		reply(messages.Code_CODE_NOT_FOUND, "unknown node "+q.Node, "run `synapse-cli get nodes` for a list")
		return
	}
	if q.Verb == messages.NodeVerb_NODE_VERB_REMOVE && m.up {
		reply(messages.Code_CODE_CONFLICT, q.Node+" is alive",
			"drain the node, stop its agent, and wait until it is declared dead")
		return
	}
	if no := s.closesLater(m, q); no != nil {
		reply(no.Code, no.Text, no.Hint)
		return
	}
	asker := ctx.Sender()
	s.edit(ctx, m, nodeEdit{change: s.changeOf(q), after: func(ctx actor.Context) {
		s.applyVerb(ctx, m, q)
		if asker != nil {
			ctx.Send(asker, &messages.ChangeNodeReply{Node: q.Node, Outcome: messages.OK()})
		}
	}})
}

func (s *nodeTable) changeOf(q *messages.ChangeNode) func(*messages.NodeRecord) {
	deed := &messages.Deed{By: q.Principal, AtUnixMs: s.p.Clock.WallMs(), Reason: q.Reason}
	return func(r *messages.NodeRecord) {
		switch q.Verb {
		case messages.NodeVerb_NODE_VERB_CORDON:
			r.Cordoned = deed
		case messages.NodeVerb_NODE_VERB_UNCORDON:
			r.Cordoned, r.Drained, r.DrainDeadlineUnixMs, r.DrainLeftMs = nil, nil, 0, 0
			forgetClosing(r)
		case messages.NodeVerb_NODE_VERB_DRAIN:
			orderDrain(r, q, deed)
		case messages.NodeVerb_NODE_VERB_REMOVE:
			r.Removed = deed
		case messages.NodeVerb_NODE_VERB_NOTE:
			if r.Note = deed; q.Reason == "" {
				r.Note = nil
			}
		}
	}
}

func (s *Scheduler) applyVerb(ctx actor.Context, m *machine, q *messages.ChangeNode) {
	switch q.Verb {
	case messages.NodeVerb_NODE_VERB_REMOVE:
		s.remove(ctx, m)
		return
	case messages.NodeVerb_NODE_VERB_UNCORDON:
		m.pardon()
		s.disarmDrain(ctx, m)
		s.believeAgain(ctx, m)
		s.armClosing(ctx, m)
	case messages.NodeVerb_NODE_VERB_DRAIN:
		s.armDrain(ctx, m)
		s.armClosing(ctx, m)
	}
	s.refresh(ctx, m)
}

// remove handles the operator's statement that the node no longer exists, which is evidence for all its unconfirmed
// allocations.
func (s *Scheduler) remove(ctx actor.Context, m *machine) {
	if m.record.Removed == nil {
		return // it joined again during the write
	}
	for _, e := range s.tenantsOf(m) {
		ctx.Send(e.pid, protocol.NodeGone{Node: m.id})
	}
	if m.rack != nil { // nil: it was removed before this leader took over
		ctx.Send(m.rack, protocol.Expel{Node: m.id})
	}
	s.view.Remove(m.room)
	s.endsChanged(m)
	m.up, m.everUp, m.incarnation, m.ledger, m.obeys, m.untruth = false, true, nil, nil, 0, ""
	m.pardon()
	s.believeAgain(ctx, m)
	m.doubt = ""
	s.forgetHealth(ctx, m)
	s.acquit(ctx, m)
	s.recant(m)
	ctx.Send(s.peers.Mirror, mirror.NodeHidden{Node: m.id})
	s.plan(ctx)
}

// edit changes a node's record on disk.
func (s *nodeTable) edit(ctx actor.Context, m *machine, e nodeEdit) {
	m.edits.waiting = append(m.edits.waiting, e)
	if m.edits.next == nil {
		s.writeNode(ctx, m)
	}
}

func (s *nodeTable) writeNode(ctx actor.Context, m *machine) {
	next := &messages.NodeRecord{Id: string(m.id)}
	if m.record != nil {
		next = actors.CopyOf(m.record)
	}
	s.noteDrain(m, next)
	for _, e := range m.edits.waiting {
		e.change(next)
	}
	s.lives++
	next.Revision++
	next.WrittenBy = &messages.Token{Epoch: s.p.Epoch, Counter: s.lives << 32}
	m.edits.written, m.edits.waiting, m.edits.next = m.edits.waiting, nil, next
	ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneDecisions, Change: actors.Change{Node: next}, Tag: m})
}

func (s *capacity) onNodeWritten(ctx actor.Context, m *machine, w protocol.Written) {
	if w.Verdict != actors.Done {
		s.rereadLater(ctx, m)
		return
	}
	done := m.edits.written
	m.record, m.edits.next, m.edits.written = m.edits.next, nil, nil
	for _, e := range done {
		if e.after != nil {
			e.after(ctx)
		}
	}
	switch {
	case len(m.edits.waiting) > 0:
		s.writeNode(ctx, m)
	case m.everUp && m.record.Removed == nil:
		s.refresh(ctx, m)
	}
}
