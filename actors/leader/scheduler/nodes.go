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

// This file owns machines as the Scheduler meets them: joining, being lost and
// returning, orders and removals, and who is told what they hold.

// nodeEdit is one change of a machine's record; after runs once it is on disk.
type nodeEdit struct {
	change func(*messages.NodeRecord)
	after  func(actor.Context)
}

// nodeEdits are the changes of one machine's record: one write at a time, which
// carries all that came in while the last one was under way.
type nodeEdits struct {
	waiting, written []nodeEdit
	next             *messages.NodeRecord
	reread           bool            // another record is on disk than the last one written
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

// house finds where a machine stands, and the Rack that hears it.
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
		ctx.Send(m.rack, protocol.Expel{Node: m.id}) // else the rack that it has left would declare it dead
	}
	m.rack, m.finest = pid, m.finestPlace(s.levels)
}

// onHello admits a machine, once what is kept of it is on disk.
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
		s.p.Host.Count("scheduler.old_lead", 1) // it answers a leader of the past that had our address
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
				r.Cordoned = nil // what people have said of the name stays, and not what its last machine did
			}
			if r.JoinedUnixMs == 0 || r.Removed != nil {
				r.JoinedUnixMs = s.p.Clock.WallMs()
			}
			r.MachineId, r.BootId, r.Announcement, r.Removed = h.Origin.MachineId, h.Origin.Incarnation.BootId, h.Announcement,
				nil
		},
		after: func(ctx actor.Context) {
			// A newer Hello, of an agent that announces something else, has a write of its own to come. Welcomed with
			// this record, its machine would be planned with what it had before.
			if newest := m.edits.hello; newest != nil && sameMachine(m.record, newest) {
				s.welcome(ctx, m)
			}
		},
	})
}

func sameMachine(r *messages.NodeRecord, h *messages.Hello) bool {
	return r.Removed == nil && r.BootId == h.Origin.Incarnation.BootId && proto.Equal(r.Announcement, h.Announcement)
}

// turnAway refuses another machine under a known name. It asks again for as long
// as it is linked, because the name may be given up; that is told once.
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

// welcome takes a machine's Hello as the truth about it. What it owes is settled
// before anything else goes there: the jobs hear of it first.
func (s *Scheduler) welcome(ctx actor.Context, m *machine) {
	h := m.edits.hello
	if h == nil {
		return // an earlier write carried it
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

// sightAll tells every job what the machine has of it, and what it has not.
func (s *evidence) sightAll(ctx actor.Context, m *machine) {
	for _, sl := range m.ledger.Slices {
		s.sight(ctx, m, topology.JobID(sl.Job), messages.FromToken(sl.Token), sl)
	}
	// A copy: of a job that is over, the sight ends the tenancy.
	for _, t := range slices.Clone(m.room.Tenants()) {
		if m.slice(t.Token) == nil {
			s.sight(ctx, m, t.Job, t.Token, nil)
		}
	}
}

func (s *evidence) sight(ctx actor.Context, m *machine, job topology.JobID, t topology.Token,
	sl *messages.SliceReport) {
	e := s.jobs[job]
	switch {
	case s.damaged[job] != nil: // it keeps what it has
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
			Token: t, Version: m.room.Version(), Slice: sl, Heard: m.reportedAt,
		})
	}
}

// resight tells a job that was recreated what all its machines have.
func (s *Scheduler) resight(ctx actor.Context, e *livingJob) {
	for _, m := range s.order {
		for _, t := range m.room.Tenants() {
			if t.Job == e.id {
				// Its predecessor may have been the only one who knew that nothing is left of it.
				s.doubtLater(ctx, protocol.Claim{Job: e.id, Token: t.Token, Targets: []protocol.Target{{Node: m.id}}})
			}
			switch {
			case t.Job != e.id:
			case m.up:
				s.sight(ctx, m, e.id, t.Token, m.slice(t.Token))
			case m.everUp:
				ctx.Send(e.pid, protocol.NodeLost{Node: m.id, SilentSince: s.p.Clock.Now()})
			}
		}
	}
}

// sightOrphan: the machine has something of a job that has no actor, so that
// job is over and all its evidence, or the operator's word, is on disk. If it is
// not even there, the store is behind.
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

// endOrphan has a machine let go of what is over.
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

// onReported takes a newer ledger over and passes on what jobs must act on.
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

// checkDevices ends the gang on a device that the machine had to withdraw.
func (s *jobTable) checkDevices(ctx actor.Context, m *machine, sl *messages.SliceReport) {
	if len(m.ledger.WithdrawnGpus) == 0 || sl.State > messages.SliceState_SLICE_STATE_STARTED ||
		m.room.Tenant(messages.FromToken(sl.Token)) == nil {
		return // or it is none of the machine's: nobody placed it there
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
		return // it has said Hello since, and its rack is about to hear of that
	}
	if !m.everUp {
		s.awaited = max(s.awaited-1, 0)
	}
	m.up, m.everUp = false, true
	s.forgetHealth(ctx, m)
	if s.behind.why == "" && m.obeys == 0 { // else silence proves nothing: the machine may obey another leader
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
		s.armClosing(ctx, m)
	case messages.NodeVerb_NODE_VERB_DRAIN:
		s.armDrain(ctx, m)
		s.armClosing(ctx, m)
	}
	s.refresh(ctx, m)
}

// remove is the operator's word that the machine is no more: evidence for all it owed.
func (s *Scheduler) remove(ctx actor.Context, m *machine) {
	if m.record.Removed == nil {
		return // it joined again while the write was under way
	}
	for _, e := range s.tenantsOf(m) {
		ctx.Send(e.pid, protocol.NodeGone{Node: m.id})
	}
	if m.rack != nil { // it had been removed before this leader took over
		ctx.Send(m.rack, protocol.Expel{Node: m.id})
	}
	s.view.Remove(m.room)
	s.endsChanged(m)
	m.up, m.everUp, m.incarnation, m.ledger, m.obeys, m.untruth = false, true, nil, nil, 0, ""
	m.pardon()
	m.doubt = ""
	s.forgetHealth(ctx, m)
	s.acquit(ctx, m)
	s.recant(m)
	ctx.Send(s.peers.Mirror, mirror.NodeHidden{Node: m.id})
	s.plan(ctx)
}

// edit changes a machine's record on disk.
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
