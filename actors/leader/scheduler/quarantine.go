package scheduler

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the weight of a node's report that contradicts the store. Only nodes that were enrolled count, whose
// records were in the store before this leader heard them. Admissions stop if two such nodes agree, or if there is only
// one node. One node is also enough if the store itself shows that it was restored and this explains the report. With
// less evidence, only the node is quarantined: it gets no work, its running tasks continue, and its status shows the
// reason.
//
// If a backup was restored and only one of many nodes has evidence, there are three cases. After a restore command, the
// store shows the restore, and one node is enough. After a plain copy, every node follows a higher epoch, so two nodes
// report it. The third case is a store that lost its last writes but not its epochs, such as a replica. One node then
// has everything that was lost. This node is quarantined, so none of its tasks is stopped, forgotten or has its
// resources allocated again. If the node has a later run of a job than the store, the job is withheld, so that it does
// not run twice. A lost run that has ended and left no trace on any node cannot be known, and is run again.
//
// If the leader believed every report, a node of a restore drill, or one bit error in an agent's memory, could stop
// thousands of nodes.

// trial collects the reports that contradict the store.
type trial struct {
	enrolled  map[topology.NodeID]string // machine IDs in the store when it was read
	witnesses []topology.NodeID          // enrolled nodes that have evidence
	restored  bool                       // the store shows that it was restored by a restore command
	rewound   bool                       // … or without one
}

func newTrial() trial { return trial{enrolled: map[topology.NodeID]string{}} }

// restoredBy is the amount by which a restore increases the epoch.
const restoredBy = 1_000_000

// open records the nodes and epochs of the store. A record of a higher epoch than this leader's shows that the store
// was brought back. An epoch that is at least restoredBy above all records shows a restore command.
func (t *trial) open(l actors.Loaded, epoch uint64) {
	var newest uint64
	for _, n := range l.Nodes {
		if n.Removed == nil {
			t.enrolled[topology.NodeID(n.Id)] = n.MachineId
		}
		newest = max(newest, n.WrittenBy.GetEpoch())
	}
	for _, d := range l.Damaged {
		if d.Node != "" {
			t.enrolled[d.Node] = "" // counts as a node but not as a witness: its machine ID is unknown
		}
	}
	for _, j := range l.Jobs {
		newest = max(newest, j.WrittenBy.GetEpoch())
	}
	t.restored, t.rewound = newest > 0 && newest+restoredBy <= epoch, newest > epoch
}

// explains reports whether a restore of the store explains a node's report. A restore loses attempts, and it increases
// the epoch beyond all epochs that nodes follow. A node that follows a higher epoch is therefore not explained by it.
func (t *trial) explains(about topology.Token, epoch uint64) bool {
	return t.rewound || t.restored && about.Epoch < epoch
}

// testify weighs a node's evidence. It is called once for each contradiction.
func (s *Scheduler) testify(ctx actor.Context, m *machine, about topology.Token, why string) {
	t := &s.behind.trial
	if id, ok := t.enrolled[m.id]; ok && m.record != nil && id == m.record.MachineId &&
		!slices.Contains(t.witnesses, m.id) {
		t.witnesses = append(t.witnesses, m.id)
	}
	m.accuses = why
	enough := len(t.witnesses) > 1 ||
		len(t.witnesses) == 1 && (len(t.enrolled) == 1 || t.explains(about, s.p.Epoch))
	told := s.behind.told[about]
	s.behind.told[about] = true
	switch {
	case enough && (!told || s.behind.why == ""):
		s.stopAdmissions(ctx, why)
	case !told:
		s.p.Host.Count("scheduler.quarantined", 1)
		s.p.Log.Info("QUARANTINED: %s", m.quarantine())
	}
	if m.record != nil {
		s.refresh(ctx, m)
	} else {
		s.showNode(ctx, m)
	}
}

// quarantine returns why a node with evidence against the store gets no new work. It returns the empty string for any
// other node.
func (m *machine) quarantine() string {
	if m.obeys == 0 && len(m.strange) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"quarantined, its tasks continue: %s; if no other node reports this, the node is wrong and not the "+
			"store: stop its agent, move the file ledger out of its --data-dir, and start the agent, which stops its tasks",
		m.accuses)
}

// acquit drops evidence that a node's newest ledger no longer contains.
func (s *Scheduler) acquit(ctx actor.Context, m *machine) {
	if len(m.strange) == 0 {
		return
	}
	m.strange = slices.DeleteFunc(m.strange, func(t topology.Token) bool { return m.slice(t) == nil })
	for _, e := range slices.Clone(m.withholds) {
		if !slices.ContainsFunc(m.ledger.GetSlices(), func(sl *messages.SliceReport) bool {
			return sl.Job == string(e.id) && slices.Contains(m.strange, messages.FromToken(sl.Token))
		}) {
			s.yield(ctx, m, e)
		}
	}
	s.recant(m)
}

// recant removes a node without evidence from the witnesses. Stopped admissions stay stopped. The next leader checks
// again.
func (s *evidence) recant(m *machine) {
	if m.quarantine() == "" {
		m.accuses = ""
		t := &s.behind.trial
		t.witnesses = slices.DeleteFunc(t.witnesses, func(n topology.NodeID) bool { return n == m.id })
	}
}

// withhold keeps a job out of the queue while an enrolled node has a later run of it than the store.
func (s *Scheduler) withhold(ctx actor.Context, m *machine, o orphan) {
	e := s.jobs[o.job]
	_, ok := s.behind.trial.enrolled[m.id]
	if e == nil || e.pid == nil || !ok || slices.Contains(m.withholds, e) ||
		slices.ContainsFunc(e.read, func(t topology.Token) bool { return !t.Less(o.token) }) {
		return
	}
	m.withholds = append(m.withholds, e)
	e.withheld++
	s.unqueue(ctx, e.id)
	s.p.Log.Info("Job %s is not started again while %s has an attempt of it that the store does not "+
		"know", e.id, m.id)
	ctx.Send(e.pid, protocol.Doubted{Node: m.id})
}

// yield allows a withheld job to be planned again, if it waits.
func (s *Scheduler) yield(ctx actor.Context, m *machine, e *livingJob) {
	m.withholds = slices.DeleteFunc(m.withholds, func(o *livingJob) bool { return o == e })
	if e.withheld--; e.withheld == 0 && e.waits != nil {
		s.onWaits(ctx, *e.waits)
	}
}

// The rest of this file owns impossible reports. A node is the authority on its own ledger and on nothing else. Its
// reports must agree with its announcement, with its orders, and with each other. A node whose reports do not is backed
// off and, if that continues, closed. Its tasks continue, and their exits still count. A believed impossible report
// would reach other nodes through the view, or the disk through COMMIT.
//
// Reports that affect only the node's own members are believed, because nothing can contradict them. Examples are that
// it has committed, prepared or started, and how a task ended.

// overhaul stores a newer ledger, and closes the node while the ledger is impossible.
func (s *Scheduler) overhaul(ctx actor.Context, m *machine, l *messages.LedgerReport) {
	before := m.untruth
	m.report(l, s.p.Clock.Now())
	s.weighHealth(ctx, m)
	s.acquit(ctx, m)
	s.recant(m)
	if m.untruth = m.doubtful(); m.untruth != "" && m.untruth != before {
		s.disbelieve(ctx, m, m.untruth)
	}
}

// disbelieve backs off a node and, after several impossible reports in a row, closes it. Another try would only cost
// the next gang its turn.
func (s *nodeTable) disbelieve(ctx actor.Context, m *machine, why string) {
	s.p.Host.Count("scheduler.untrue", 1)
	m.untrue++
	s.backOff(ctx, m, why)
	if m.untrue >= s.p.Constants.LaunchFailures {
		s.close(ctx, m, "its answers are impossible: "+why)
	}
}

// close cordons a node in the scheduler's name.
func (s *nodeTable) close(ctx actor.Context, m *machine, reason string) {
	if m.record != nil && m.record.Cordoned == nil {
		deed := &messages.Deed{By: &messages.Principal{Name: closer}, AtUnixMs: s.p.Clock.WallMs(), Reason: reason}
		s.edit(ctx, m, nodeEdit{change: func(r *messages.NodeRecord) { r.Cordoned = deed }})
	}
}

// doubtful returns why the node's ledger is impossible. It returns the empty string if it is possible.
func (m *machine) doubtful() string {
	l, a := m.ledger, m.record.GetAnnouncement()
	has, total, free := messages.FromResources(a.GetTotal()), messages.FromResources(l.Total),
		messages.FromResources(l.Free)
	held, ghosts := heldIn(l), len(l.WithdrawnGpus)-actors.OutOfService(a, l)
	most := has.Plus(topology.Resources{MilliGPU: int64(ghosts) * topology.WholeGPU})
	most.MilliCPU, most.MemoryBytes = max(has.MilliCPU, held.MilliCPU), max(has.MemoryBytes, held.MemoryBytes)
	out := topology.Resources{MilliGPU: int64(len(l.WithdrawnGpus)) * topology.WholeGPU}
	var devices int64
	for _, g := range l.FreeGpus {
		devices += g.Milli
		if !actors.Announces(a, g.GpuId) {
			return fmt.Sprintf("device %s is free, but the node never announced it", g.GpuId)
		}
	}
	switch {
	case !has.Within(total) || !total.Within(most):
		return fmt.Sprintf("it announced %s, but its ledger has %s in total", amount(has), amount(total))
	case !free.Within(has):
		return fmt.Sprintf("it announced %s, but has %s free", amount(has), amount(free))
	case devices != free.MilliGPU:
		return fmt.Sprintf("it has %d thousandths of devices free, but lists %d", free.MilliGPU, devices)
	case !total.Within(free.Plus(held).Plus(out)):
		return fmt.Sprintf("its ledger has %s in total, but only %s are free or allocated", amount(total),
			amount(free.Plus(held)))
	}
	return ""
}

// heldIn returns the sum of the allocations in a ledger.
func heldIn(l *messages.LedgerReport) (sum topology.Resources) {
	for _, sl := range l.Slices {
		for _, g := range sl.Grants {
			sum = sum.Plus(messages.FromResources(g.Amount))
		}
	}
	return sum
}

// amount returns resources as text.
func amount(r topology.Resources) string {
	return fmt.Sprintf("%d milli-CPU, %d bytes of memory and %d milli-GPU", r.MilliCPU, r.MemoryBytes, r.MilliGPU)
}

// changed reports whether a Hello differs from the announcement of the same start of the agent. An agent reads its
// resources once, when it starts.
func (m *machine) changed(h *messages.Hello, known *messages.NodeRecord) bool {
	return messages.SameIncarnation(m.incarnation, h.Origin.Incarnation) &&
		!proto.Equal(known.GetAnnouncement(), h.Announcement)
}

// onStrangeToken handles a report of an attempt that this leader never created. A token of an earlier leader may be a
// late message.
func (s *capacity) onStrangeToken(ctx actor.Context, t protocol.StrangeToken) {
	m := s.machines[t.Node]
	if m == nil || !m.up || t.Token.Epoch < s.p.Epoch || s.issued(t.Token) ||
		!messages.SameIncarnation(m.incarnation, t.Incarnation) {
		return
	}
	s.disbelieve(ctx, m, fmt.Sprintf("it reports attempt %s, which was never created", t.Token))
	s.refresh(ctx, m)
}

// contradicts reports whether a refusal for missing resources came with a ledger that has all of them. It is not
// impossible, because a port may be missing. But nothing in the view would prevent the next pass from proposing the
// same.
func (m *machine) contradicts(t topology.Token) bool {
	asked := m.room.Tenant(t)
	return asked != nil && asked.Amount().Within(messages.FromResources(m.ledger.Free))
}
