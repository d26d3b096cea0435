package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the periodic messages to the leader: heartbeats, and a report soon after the ledger changed. Both show
// an allocation only in a state that is on disk.

var noToken topology.Token

// nodePulse holds the messages that were sent to the leader, and the leader's acknowledgements.
type nodePulse struct {
	timer      uint64 // number of the last timer: an older one is stale
	seq        uint64 // of the last heartbeat
	sent       [8]pulseSent
	heard      actors.Instant // send time of the last acknowledged heartbeat
	acked      uint64         // the ledger version that the leader has for certain
	reported   uint64         // the version that was last sent
	armed      bool           // a report is scheduled
	early      actors.Instant // when a heartbeat was last sent early because of progress; 0: never
	earlyArmed bool           // one is due
	examined   uint64         // number of the last order to run the health checks
}

type pulseSent struct {
	seq uint64
	at  actors.Instant
}

type (
	pulseDue  struct{ Timer uint64 }
	reportDue struct{}
)

// armPulse schedules the next pulse and makes any earlier timer stale.
func (n *Node) armPulse(ctx actor.Context) {
	n.pulse.timer++
	n.p.Clock.After(n.p.Constants.Heartbeat, ctx.Self(), pulseDue{n.pulse.timer})
}

func (n *Node) onPulse(ctx actor.Context, m pulseDue) {
	switch {
	case m.Timer != n.pulse.timer:
	case n.states.In(nodeJoining):
		n.sayHello(ctx)
	case n.states.In(nodeMember):
		if n.usersNow() != n.users.known {
			n.sayHello(ctx) // until it is welcomed
		}
		n.beat(ctx)
		n.armPulse(ctx)
	}
}

// beat sends a heartbeat. The heartbeat contains the ledger until the leader has acknowledged that version, and while
// exits wait for Forget.
func (n *Node) beat(ctx actor.Context) {
	n.pulse.seq++
	n.pulse.sent[n.pulse.seq%uint64(len(n.pulse.sent))] = pulseSent{n.pulse.seq, n.p.Clock.Now()}
	running, exits := n.tasks()
	beat := &messages.Heartbeat{
		Origin: n.origin(noToken, ""), Epoch: n.epoch, Seq: n.pulse.seq, RunningTasks: running, LoadPercent: n.load(),
	}
	if exits || n.ledger.Version() > n.pulse.acked {
		beat.Ledger = n.ledgerReport()
		n.pulse.reported = n.ledger.Version()
	}
	beat.Progress = n.progressReport()
	ctx.Request(n.rack, beat)
	n.p.Log.Debug("Pulse sent")
}

// tasks counts the running tasks, and reports whether an exit waits for Forget.
func (n *Node) tasks() (running int32, exits bool) {
	for _, l := range n.ledger.Allocations() {
		for _, r := range n.slices[l.Token].ranks {
			if r.exit != nil {
				exits = true
			} else if r.started {
				running++
			}
		}
	}
	return running, exits
}

// load returns the allocated share of the CPUs, in percent.
func (n *Node) load() int32 {
	b := n.ledger.Books()
	if b.Total.MilliCPU == 0 {
		return 0
	}
	return int32((b.Total.MilliCPU - b.Free.MilliCPU) * 100 / b.Total.MilliCPU)
}

// onHeartbeatAck records that the leader was still receiving when that heartbeat was sent. The supervisors count the
// time without a leader from that moment.
func (n *Node) onHeartbeatAck(ctx actor.Context, m *messages.HeartbeatAck) {
	if !n.states.In(nodeMember) || !n.meant(m.Epoch, m.Incarnation) {
		n.p.Host.Count("node.stale_ack", 1)
		return
	}
	n.progressAcked(m.Seq)
	n.examine(ctx, m.Examine)
	n.pulse.acked = max(n.pulse.acked, min(m.LedgerVersion, n.ledger.Version()))
	sent := n.pulse.sent[m.Seq%uint64(len(n.pulse.sent))]
	if sent.seq == m.Seq && sent.at > n.pulse.heard {
		n.pulse.heard = sent.at
		n.p.Launcher.Tell(&messages.KeepTasks{HeardNs: int64(sent.at)}, ctx.Self())
	}
}

// armReport schedules a report of the changed ledger. Several changes within the delay cause one report.
func (n *Node) armReport(ctx actor.Context) {
	if n.pulse.armed || !n.states.In(nodeMember) || n.ledger.Version() == n.pulse.reported {
		return
	}
	n.pulse.armed = true
	n.p.Clock.After(n.p.Constants.ReportDelay, ctx.Self(), reportDue{})
}

func (n *Node) onReportDue(ctx actor.Context) {
	n.pulse.armed = false
	if !n.states.In(nodeMember) || n.ledger.Version() == n.pulse.reported {
		return
	}
	n.pulse.reported = n.ledger.Version()
	ctx.Request(n.rack, &messages.Report{Origin: n.origin(noToken, ""), Epoch: n.epoch, Ledger: n.ledgerReport()})
}

// ledgerReport returns the node's complete ledger, as far as it may be sent.
func (n *Node) ledgerReport() *messages.LedgerReport {
	b := n.ledger.Books()
	r := &messages.LedgerReport{
		Version: n.ledger.Version(), Total: messages.ToResources(b.Total), Free: messages.ToResources(b.Free),
		FreeGpus: n.said.gpus(n.ledger.FreeShares()), Trouble: n.trouble(),
		Unwell: n.health.GetUnwell(),
	}
	r.Uids = n.uids
	for _, l := range n.ledger.Allocations() {
		r.Slices = append(r.Slices, n.allocationReport(n.slices[l.Token]))
	}
	for _, id := range n.ledger.WithdrawnGPUs() {
		r.WithdrawnGpus = append(r.WithdrawnGpus, string(id))
	}
	return r
}

// onUidsInUse stores the UIDs in use. The leader gives no such UID to another job. They are sent with the ledger, and
// before the end of the tasks that use them.
func (n *Node) onUidsInUse(m *messages.UidsInUse) {
	n.uids = m.Uids
	n.ledger.Touch()
}

func (n *Node) allocationReport(s *nodeAllocation) *messages.SliceReport {
	r := &messages.SliceReport{Token: s.wire, Job: string(s.page.Job), State: messages.ToAllocationState(s.shown)}
	now := n.p.Clock.Now()
	r.Exits, r.ExitAgesMs = s.exits(now)
	r.RanMs = s.ran(now).Milliseconds()
	if s.shown == topology.AllocationEnded {
		return r // only its exits and its start are left: its last rank may have been the last of the gang to start
	}
	// The ledger shows the present state, and the allocation its state on disk.
	r.Vacated = s.page.State == topology.AllocationEnded
	r.Held = s.hold.shown
	r.RendezvousPort, r.Grants, r.HeldMs = s.page.Port, s.grants, s.held(now).Milliseconds()
	if s.page.State == topology.AllocationReserved {
		r.ExpiresInMs = max(s.page.ExpiresAt-n.now(), 0) / 1_000_000
	}
	return r
}
