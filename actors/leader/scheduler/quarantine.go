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

// This file owns how much a machine's word against the store weighs. Evidence counts from machines that were
// enrolled: their record was in the store before this leader heard of them. Admissions stop where two of them agree,
// or the only one there is; or one, where the store itself shows that it was brought back, and that explains what it
// says. Less than that quarantines the one machine: it takes no work, what runs there is left alone, and people read
// why.
//
// What if a backup was brought back, and only one machine of many has evidence?
// Where it came in by a restore, the store says so, and that one is enough. Where
// it was merely copied, every machine obeys a higher epoch, and two say so. There
// is left a store that lost its end and not its epochs, as with a replica, where
// one machine has all that was lost: that machine is quarantined, so nothing of
// what it runs is stopped, forgotten or given away; and a job of which it has a
// later run than the store knows is withheld, so that it is not run beside itself
// as long as that machine says so. A run that was lost, is over, and left no
// trace on any machine, nobody can know of: it is run again.
//
// The naive way, to believe whoever speaks, lets the machine of a drill, or one
// bit in one agent's memory, stop thousands of machines.

// trial collects the reports that contradict the store.
type trial struct {
	enrolled  map[topology.NodeID]string // machine ids, as the store had them when it was read
	witnesses []topology.NodeID          // enrolled machines that have evidence
	restored  bool                       // the store itself shows that a restore brought it in
	rewound   bool                       // … or that it was brought back without one
}

func newTrial() trial { return trial{enrolled: map[topology.NodeID]string{}} }

// restoredBy is how far a restore moves the epoch on.
const restoredBy = 1_000_000

// open notes what the store knew of its machines and of itself. Records of a higher
// epoch than it leads with, or of none since a restore, show that it was brought back.
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
			t.enrolled[d.Node] = "" // one more machine, and no witness: whose id it is nobody knows
		}
	}
	for _, j := range l.Jobs {
		newest = max(newest, j.WrittenBy.GetEpoch())
	}
	t.restored, t.rewound = newest > 0 && newest+restoredBy <= epoch, newest > epoch
}

// explains reports whether the store itself shows why a machine would say this. A
// restore loses attempts, and moves the epoch past all that machines obey: who
// obeys a higher one still does not do so because of it.
func (t *trial) explains(about topology.Token, epoch uint64) bool {
	return t.rewound || t.restored && about.Epoch < epoch
}

// testify weighs a machine's evidence. It is told once for each thing it has.
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

// quarantine says why nothing new goes to a machine that has evidence against the
// store; empty: it has none.
func (m *machine) quarantine() string {
	if m.obeys == 0 && len(m.strange) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"quarantined, its tasks are left alone: %s. If it is the only one that says so, the machine is wrong, and not the "+
			"store: end its agent, move the file ledger of its --data-dir aside, and start it again, which stops what it runs",
		m.accuses)
}

// acquit takes back what a machine's newest books no longer show.
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

// recant: a machine without evidence is no witness any more. Admissions that have
// stopped stay stopped: the next leader looks again.
func (s *evidence) recant(m *machine) {
	if m.quarantine() == "" {
		m.accuses = ""
		t := &s.behind.trial
		t.witnesses = slices.DeleteFunc(t.witnesses, func(n topology.NodeID) bool { return n == m.id })
	}
}

// withhold keeps a job from the queue while an enrolled machine has a later run of
// it than the store knows.
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

// yield lets a job that was withheld be planned again, if it waits.
func (s *Scheduler) yield(ctx actor.Context, m *machine, e *livingJob) {
	m.withholds = slices.DeleteFunc(m.withholds, func(o *livingJob) bool { return o == e })
	if e.withheld--; e.withheld == 0 && e.waits != nil {
		s.onWaits(ctx, *e.waits)
	}
}

// What follows owns what the leader does not believe of a machine. A machine is the authority on its own books, and on
// nothing else: what it says must agree with what it announced, with what it was asked, and with itself. One that does
// not is left out by name and, if it goes on, closed; what runs there is left alone, and what its members say of their
// ends still counts. Believed, its word would reach other machines by way of the view, or the disk by way of COMMIT.
//
// What only harms its own members is believed, because nothing could be held
// against it: that it has committed, prepared or started, and how a task ended.

// overhaul takes a newer ledger over, and closes the machine while its books
// cannot be true.
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

// disbelieve leaves a machine out and, after some untruths in a row, closes it:
// trying again would only cost another gang its turn.
func (s *nodeTable) disbelieve(ctx actor.Context, m *machine, why string) {
	s.p.Host.Count("scheduler.untrue", 1)
	m.untrue++
	s.bench(ctx, m, why)
	if m.untrue >= s.p.Constants.LaunchFailures {
		s.close(ctx, m, "its answers cannot be true: "+why)
	}
}

// close cordons a machine in the scheduler's own name.
func (s *nodeTable) close(ctx actor.Context, m *machine, reason string) {
	if m.record != nil && m.record.Cordoned == nil {
		deed := &messages.Deed{By: &messages.Principal{Name: closer}, AtUnixMs: s.p.Clock.WallMs(), Reason: reason}
		s.edit(ctx, m, nodeEdit{change: func(r *messages.NodeRecord) { r.Cordoned = deed }})
	}
}

// doubtful says why the machine's books cannot be true; empty: they can.
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
			return fmt.Sprintf("it has device %s free, which it never announced", g.GpuId)
		}
	}
	switch {
	case !has.Within(total) || !total.Within(most):
		return fmt.Sprintf("it announced %s, and its books are of %s", amount(has), amount(total))
	case !free.Within(has):
		return fmt.Sprintf("it announced %s, and has %s free", amount(has), amount(free))
	case devices != free.MilliGPU:
		return fmt.Sprintf("it has %d thousandths of devices free, and lists %d", free.MilliGPU, devices)
	case !total.Within(free.Plus(held).Plus(out)):
		return fmt.Sprintf("its books are of %s, and only %s of it are free or given away", amount(total),
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

// amount is how much in words.
func amount(r topology.Resources) string {
	return fmt.Sprintf("%d milli-CPU, %d bytes of memory and %d milli-GPU", r.MilliCPU, r.MemoryBytes, r.MilliGPU)
}

// changed reports whether a Hello announces something else than the same start of
// the agent did: what a machine has is read once, when its agent starts.
func (m *machine) changed(h *messages.Hello, known *messages.NodeRecord) bool {
	return messages.SameIncarnation(m.incarnation, h.Origin.Incarnation) &&
		!proto.Equal(known.GetAnnouncement(), h.Announcement)
}

// onStrangeToken: an attempt that this leader never made is no attempt. One of an
// earlier leader may have been told late.
func (s *capacity) onStrangeToken(ctx actor.Context, t protocol.StrangeToken) {
	m := s.machines[t.Node]
	if m == nil || !m.up || t.Token.Epoch < s.p.Epoch || s.issued(t.Token) ||
		!messages.SameIncarnation(m.incarnation, t.Incarnation) {
		return
	}
	s.disbelieve(ctx, m, fmt.Sprintf("it speaks of attempt %s, which was never made", t.Token))
	s.refresh(ctx, m)
}

// contradicts reports whether a refusal for want of room came with books that have
// room for all that was asked. It is no untruth, since a port may be what is
// lacking; but nothing in the view would keep the next pass from asking the same again.
func (m *machine) contradicts(t topology.Token) bool {
	asked := m.room.Tenant(t)
	return asked != nil && asked.Amount().Within(messages.FromResources(m.ledger.Free))
}
