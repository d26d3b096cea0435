// Package rack holds the Racks, the actors that receive the heartbeats of a leader's nodes. A Rack records when each of
// its nodes was last heard, declares silent nodes dead, and passes changed ledgers on.
package rack

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TookSilence names the distribution of the silence between two messages of a node.
const TookSilence = "rack.silence"

// Rack owns the membership of its nodes: when each was last heard, and which are dead. It passes only changes to the
// Scheduler, so ten thousand heartbeats cost the Scheduler nothing.
//
// A Rack sends messages to the Scheduler (Reported, Lost, StrangerHeard), to Nodes (Welcome, HeartbeatAck) and to the
// Mirror (ProgressShown). It sends no requests.
type Rack struct {
	p         *protocol.Ports
	name      string
	scheduler *actor.PID
	members   map[topology.NodeID]*listed
	order     []*listed      // in order of arrival, which is the order of checks
	due       actors.Instant // time of the next tick
}

// listed holds a Rack's knowledge of one node.
type listed struct {
	actors.States[memberState]
	id          topology.NodeID
	incarnation *messages.Incarnation
	machineID   string
	heard       actors.Instant
	version     uint64 // of the newest ledger passed on
	enrolled    uint64 // the Scheduler's count at the last Enrol
	examine     uint64 // number of the last Examine for this start of its agent; 0: none
}

type rackTick struct{}

func New(p *protocol.Ports, name string, scheduler *actor.PID) actor.Actor {
	return &Rack{p: p, name: name, scheduler: scheduler, members: map[topology.NodeID]*listed{}}
}

// Receive dispatches a message.
func (r *Rack) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.armTick(ctx)
	case protocol.Expect:
		r.onExpect(m)
	case protocol.Enrol:
		r.onEnrol(ctx, m)
	case protocol.Expel:
		r.onExpel(m)
	case protocol.Examine:
		r.list(m.Node).examine = m.Number
	case *messages.Heartbeat:
		r.onHeartbeat(ctx, m)
	case *messages.Report:
		r.onReport(ctx, m)
	case rackTick:
		r.onTick(ctx)
	}
}

// onExpect counts the silence of a node in the store from now on, so that every node has the full time to reach a new
// leader.
func (r *Rack) onExpect(m protocol.Expect) {
	r.list(m.Node).heard = r.p.Clock.Now()
}

// list returns the Rack's entry of a node, and creates it if there is none.
func (r *Rack) list(id topology.NodeID) *listed {
	if known := r.members[id]; known != nil {
		return known
	}
	fresh := &listed{States: actors.NewStates(&Table, r.p.Host), id: id}
	r.members[id] = fresh
	r.order = append(r.order, fresh)
	return fresh
}

func (r *Rack) onEnrol(ctx actor.Context, m protocol.Enrol) {
	origin, a := m.Hello.Origin, m.Hello.Announcement
	who := r.list(topology.NodeID(origin.Node))
	who.Become("hello", memberAlive)
	if !messages.SameIncarnation(who.incarnation, origin.Incarnation) {
		who.examine = 0 // an agent that starts runs its checks anyway
	}
	who.incarnation, who.machineID = origin.Incarnation, origin.MachineId
	who.heard = r.p.Clock.Now()
	who.version, who.enrolled = m.Hello.Ledger.Version, m.Count
	r.p.Calls.Info("RegisterWorker: ID=%s, CPU=%d, RAM=%d", origin.Node, a.Total.MilliCpu/1000, a.Total.MemoryBytes)
	ctx.Request(m.Node, &messages.Welcome{Epoch: r.p.Epoch, Text: "Welcome to Synapse", Incarnation: origin.Incarnation})
}

func (r *Rack) onExpel(m protocol.Expel) {
	gone := r.members[m.Node]
	if gone == nil {
		return
	}
	delete(r.members, m.Node)
	for i, who := range r.order {
		if who == gone {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// hear returns the member that sent a message. A node that is dead, or a different start of its agent, must first send
// Hello, because its state may differ from the leader's view.
func (r *Rack) hear(ctx actor.Context, epoch uint64, o *messages.Origin) *listed {
	if epoch != r.p.Epoch || o == nil {
		r.p.Host.Count("rack.other_epoch", 1)
		if epoch < r.p.Epoch && o != nil {
			// The node follows an earlier leader at this address: this leader's Lead did not reach it.
			ctx.Send(r.scheduler, protocol.StrangerHeard{Node: topology.NodeID(o.Node)})
		}
		return nil
	}
	who := r.members[topology.NodeID(o.Node)]
	if who == nil || !who.In(memberAlive) || who.machineID != o.MachineId ||
		!messages.SameIncarnation(who.incarnation, o.Incarnation) {
		r.p.Host.Count("rack.stranger", 1)
		ctx.Send(r.scheduler, protocol.StrangerHeard{Node: topology.NodeID(o.Node)})
		return nil
	}
	now := r.p.Clock.Now()
	r.p.Host.Took(TookSilence, now.Since(who.heard))
	who.heard = now
	return who
}

func (r *Rack) onHeartbeat(ctx actor.Context, m *messages.Heartbeat) {
	who := r.hear(ctx, m.Epoch, m.Origin)
	if who == nil {
		return
	}
	r.p.Calls.Debug("Heartbeat from %s", who.id)
	r.pass(ctx, who, m.Ledger)
	if len(m.Progress) > 0 {
		mirrored := actors.At(r.scheduler, actors.MirrorPath)
		ctx.Send(mirrored, mirror.ProgressShown{Node: who.id, Progress: m.Progress})
		for _, p := range m.Progress {
			to := actors.At(r.scheduler, actors.JobPath(topology.JobID(p.GetJob())))
			ctx.Send(to, protocol.ProgressHeard{Node: who.id, Progress: p})
		}
	}
	ctx.Respond(&messages.HeartbeatAck{Epoch: m.Epoch, Seq: m.Seq, LedgerVersion: who.version,
		Incarnation: who.incarnation, Examine: who.examine})
}

func (r *Rack) onReport(ctx actor.Context, m *messages.Report) {
	if who := r.hear(ctx, m.Epoch, m.Origin); who != nil {
		r.pass(ctx, who, m.Ledger)
	}
}

// pass sends a ledger to the Scheduler, unless a newer one was already passed on, because messages may overtake each
// other. The same version is passed on again: exits stay in the reports until they are forgotten, and the Scheduler's
// answer may have been lost.
func (r *Rack) pass(ctx actor.Context, who *listed, ledger *messages.LedgerReport) {
	if ledger == nil || ledger.Version < who.version {
		return
	}
	who.version = ledger.Version
	ctx.Send(r.scheduler, protocol.Reported{Node: who.id, Incarnation: who.incarnation, Ledger: ledger})
}

func (r *Rack) armTick(ctx actor.Context) {
	r.due = r.p.Clock.Now().Plus(r.p.Constants.RackTick)
	r.p.Clock.After(r.p.Constants.RackTick, ctx.Self(), rackTick{})
}

// onTick declares silent nodes dead. It is the only place that does. A late tick shows that this process did not run,
// and it may have missed messages. Every deadline is therefore extended by the lateness.
func (r *Rack) onTick(ctx actor.Context) {
	now := r.p.Clock.Now()
	late := max(now.Since(r.due), 0)
	for _, who := range r.order {
		who.heard = who.heard.Plus(late)
		if !who.In(memberDead) && now.Since(who.heard) >= r.p.Constants.DeadAfter {
			r.declareDead(ctx, who)
		}
	}
	r.armTick(ctx)
}

func (r *Rack) declareDead(ctx actor.Context, who *listed) {
	who.Become("silence", memberDead)
	r.p.Log.Info("REAPER: Node %s is DEAD (Missed Heartbeats)", who.id)
	ctx.Send(r.scheduler, protocol.Lost{Node: who.id, SilentSince: who.heard, Count: who.enrolled})
}
