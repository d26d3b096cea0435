package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the machine sends the leader unasked: heartbeats at their interval, and a report soon after the
// books changed. Neither shows anything of a slice that is not on disk yet.

var noToken topology.Token

// nodePulse notes what was sent to the leader and what the leader has acknowledged.
type nodePulse struct {
	timer    uint64 // numbers the timers: an older one is stale
	seq      uint64 // of the last heartbeat
	sent     [8]pulseSent
	heard    actors.Instant // when the last acknowledged heartbeat was sent
	acked    uint64         // the ledger version that the leader certainly has
	reported uint64         // the one that it was last sent
	armed    bool           // a report is due
}

type pulseSent struct {
	seq uint64
	at  actors.Instant
}

type (
	pulseDue  struct{ Timer uint64 }
	reportDue struct{}
)

// armPulse sets the next pulse and makes any earlier one stale.
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

// beat sends a heartbeat. The ledger is in it until the leader has it, and as
// long as there are exits to be forgotten.
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
	ctx.Request(n.rack, beat)
	n.p.Log.Debug("Pulse sent")
}

// tasks counts those that run, and reports whether any exit waits for Forget.
func (n *Node) tasks() (running int32, exits bool) {
	for _, l := range n.ledger.Slices() {
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

// load is how much of the processors is given away, in percent.
func (n *Node) load() int32 {
	b := n.ledger.Books()
	if b.Total.MilliCPU == 0 {
		return 0
	}
	return int32((b.Total.MilliCPU - b.Free.MilliCPU) * 100 / b.Total.MilliCPU)
}

// onHeartbeatAck learns that the control plane still received from us when that heartbeat was SENT, and lets the
// supervisors count from there.
func (n *Node) onHeartbeatAck(ctx actor.Context, m *messages.HeartbeatAck) {
	if !n.states.In(nodeMember) || !n.meant(m.Epoch, m.Incarnation) {
		n.p.Host.Count("node.stale_ack", 1)
		return
	}
	n.pulse.acked = max(n.pulse.acked, min(m.LedgerVersion, n.ledger.Version()))
	sent := n.pulse.sent[m.Seq%uint64(len(n.pulse.sent))]
	if sent.seq == m.Seq && sent.at > n.pulse.heard {
		n.pulse.heard = sent.at
		n.p.Launcher.Tell(&messages.KeepTasks{HeardNs: int64(sent.at)}, ctx.Self())
	}
}

// armReport ensures that changed books are reported soon: several changes in a row make one report.
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

// ledgerReport is the machine's whole books, as far as they may be sent.
func (n *Node) ledgerReport() *messages.LedgerReport {
	b := n.ledger.Books()
	r := &messages.LedgerReport{
		Version: n.ledger.Version(), Total: messages.ToResources(b.Total), Free: messages.ToResources(b.Free),
		FreeGpus: n.said.gpus(n.ledger.FreeShares()), Trouble: n.trouble(),
		Unwell: n.health.GetUnwell(),
	}
	r.Uids = n.uids
	for _, l := range n.ledger.Slices() {
		r.Slices = append(r.Slices, n.sliceReport(n.slices[l.Token]))
	}
	for _, id := range n.ledger.WithdrawnGPUs() {
		r.WithdrawnGpus = append(r.WithdrawnGpus, string(id))
	}
	return r
}

// onUidsInUse: the leader gives no uid that is in use here to another job, so they are sent with the books, and before
// the end of the tasks that use them.
func (n *Node) onUidsInUse(m *messages.UidsInUse) {
	n.uids = m.Uids
	n.ledger.Touch()
}

func (n *Node) sliceReport(s *nodeSlice) *messages.SliceReport {
	r := &messages.SliceReport{Token: s.wire, Job: string(s.page.Job), State: messages.ToSliceState(s.shown)}
	now := n.p.Clock.Now()
	r.Exits, r.ExitAgesMs = s.exits(now)
	r.RanMs = s.ran(now).Milliseconds()
	if s.shown == topology.SliceOver {
		return r // it holds nothing but its exits, and when it began: it may have been the last of its gang to begin
	}
	r.Vacated = s.page.State == topology.SliceOver // the books are as they are now, the slice as it was on disk
	r.RendezvousPort, r.Grants, r.HeldMs = s.page.Port, s.grants, s.held(now).Milliseconds()
	if s.page.State == topology.SliceReserved {
		r.ExpiresInMs = max(s.page.ExpiresAt-n.now(), 0) / 1_000_000
	}
	return r
}
