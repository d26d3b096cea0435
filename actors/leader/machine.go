package leader

import (
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the leader's view of one machine: the ledger it last reported,
// plus the leader's own claims, minus nothing. A claim leaves only when a ledger
// has arrived that is at least as new as the machine's answer to it, so an older
// heartbeat never frees anything.

// machine is one node as the Scheduler knows it.
type machine struct {
	id     topology.NodeID
	record *messages.NodeRecord // as on disk
	edits  nodeEdits
	rack   *actor.PID
	finest string // its place on the finest level

	up          bool
	everUp      bool // since this leader took over
	enrolled    uint64
	incarnation *messages.Incarnation
	vocabulary  int32    // what its agent understands
	pastBoots   []string // that this leader has seen end
	turnedAway  string   // the machine that was last refused under this name
	halted      string   // why nothing is admitted anywhere
	ledger      *messages.LedgerReport
	reportedAt  actors.Instant // when it came
	tenants     []*tenant
	uids        *topology.UIDs // the leader's
	held        []uint32       // of them, as the newest books say

	benchedFor   time.Duration // the last bench, doubling; zero after a success
	benchSeq     uint64        // of the one in force; timers of earlier ones are stale
	benchWhy     string        // empty: not benched
	launchFailed int           // in a row, by its own fault
	doubts       []doubt       // failures since it last did well that may be the jobs'
	untrue       int           // answers that cannot be true, in a row
	untruth      string        // why its books cannot be true; empty: they can

	obeys     uint64           // the higher epoch that it follows; 0: it follows ours, or none
	strange   []topology.Token // attempts that it has and the store does not know
	accuses   string           // what that says of the store
	withholds []*livingJob     // which are not run again for it
	drainSeq  uint64
	drainEnds actors.Instant // zero: no drain with a deadline
	withdrawn int            // announced devices that the view knows to be out of service
}

// tenant is one attempt that is, or may be, on the machine.
type tenant struct {
	token   topology.Token
	job     topology.JobID
	amounts []topology.Resources  // one per rank
	one     [1]topology.Resources // most have no more
	version uint64                // of the machine's answer; 0: none yet
	claimed bool                  // no ledger that would show it has arrived
	leaving bool                  // nothing of it is left from version on
	uid     uint32                // of its job, and held for it; 0: none
}

// pastBootsKept is how many boots of a machine a late Hello is told from: it comes
// late by minutes, and a machine does not boot more often than that.
const pastBootsKept = 16

// outlived reports whether a Hello is from an earlier start than one already
// heard. It may come late; taken for the present, what runs now would seem gone.
func (m *machine) outlived(i *messages.Incarnation) bool {
	newest := m.incarnation
	if h := m.edits.hello; h != nil {
		newest = h.Origin.Incarnation
	}
	if newest != nil && newest.BootId == i.GetBootId() {
		return i.GetStartedNs() < newest.StartedNs
	}
	return slices.Contains(m.pastBoots, i.GetBootId())
}

func (m *machine) tenant(t topology.Token) *tenant {
	for _, who := range m.tenants {
		if who.token == t {
			return who
		}
	}
	return nil
}

func (m *machine) evict(t topology.Token) {
	if who := m.tenant(t); who != nil {
		m.uids.Release(who.uid)
		m.tenants = slices.DeleteFunc(m.tenants, func(other *tenant) bool { return other == who })
	}
}

// version is of the newest ledger.
func (m *machine) version() uint64 { return m.ledger.GetVersion() }

// slice finds a token in the newest ledger.
func (m *machine) slice(t topology.Token) *messages.SliceReport {
	for _, s := range m.ledger.GetSlices() {
		if messages.FromToken(s.Token) == t {
			return s
		}
	}
	return nil
}

// take over a newer ledger: claims that it covers go.
func (m *machine) report(l *messages.LedgerReport, now actors.Instant) {
	m.ledger, m.reportedAt = l, now
	m.holdUIDs(l.Uids)
	kept := m.tenants[:0]
	for _, who := range m.tenants {
		covered := who.version > 0 && l.Version >= who.version
		if who.leaving && covered {
			m.uids.Release(who.uid)
			continue
		}
		if covered {
			who.claimed = false
		}
		kept = append(kept, who)
	}
	m.tenants = kept
}

// restart forgets the claims on an earlier incarnation: what it had granted is
// in the new ledger or is gone, and what it had not yet read it will refuse.
func (m *machine) restart() {
	kept := m.tenants[:0]
	for _, who := range m.tenants {
		if who.leaving {
			m.uids.Release(who.uid)
			continue
		}
		who.claimed, who.version = false, 0
		kept = append(kept, who)
	}
	m.tenants = kept
}

// pardon forgets what the machine did badly.
func (m *machine) pardon() {
	m.launchFailed, m.doubts, m.untrue, m.benchWhy, m.benchedFor = 0, nil, 0, "", 0
}

// capacity is what is free there to plan with.
func (m *machine) capacity() topology.Capacity {
	l := m.ledger
	if l == nil || !m.up || m.untruth != "" {
		return topology.Capacity{}
	}
	c := topology.Capacity{MilliCPU: l.Free.GetMilliCpu(), MemoryBytes: l.Free.GetMemoryBytes()}
	for _, g := range l.FreeGpus {
		if g.Milli == topology.WholeGPU {
			c.WholeGPUs++
		} else {
			c.Parts = append(c.Parts, g.Milli)
		}
	}
	slices.SortFunc(c.Parts, func(a, b int64) int { return int(b - a) })
	for _, who := range m.tenants {
		if who.claimed && m.slice(who.token) == nil {
			for _, a := range who.amounts {
				c = spend(c, a)
			}
		}
	}
	return c
}

// spend subtracts one member as the machine itself would grant it. A claim may
// exceed what a ledger shows that does not know it yet: then nothing is free.
func spend(c topology.Capacity, a topology.Resources) topology.Capacity {
	c.MilliCPU = max(c.MilliCPU-a.MilliCPU, 0)
	c.MemoryBytes = max(c.MemoryBytes-a.MemoryBytes, 0)
	c.WholeGPUs = max(c.WholeGPUs-int32(a.MilliGPU/topology.WholeGPU), 0)
	part := a.MilliGPU % topology.WholeGPU
	if part == 0 {
		return c
	}
	for i := len(c.Parts) - 1; i >= 0; i-- { // the smallest part that fits
		if c.Parts[i] >= part {
			rest := c.Parts[i] - part
			c.Parts = slices.Delete(slices.Clone(c.Parts), i, i+1)
			return withPart(c, rest)
		}
	}
	if c.WholeGPUs > 0 {
		c.WholeGPUs--
		return withPart(c, topology.WholeGPU-part)
	}
	return c
}

func withPart(c topology.Capacity, milli int64) topology.Capacity {
	if milli == 0 {
		return c
	}
	c.Parts = append(slices.Clone(c.Parts), milli)
	slices.SortFunc(c.Parts, func(a, b int64) int { return int(b - a) })
	return c
}

// closed tells why nothing new goes there; empty: it is open.
func (m *machine) closed() string {
	switch {
	case m.halted != "":
		return m.halted
	case m.quarantine() != "":
		return m.quarantine()
	case m.unread():
		return m.record.Cordoned.Reason
	case !m.everUp:
		return "not heard since this leader took over"
	case m.untruth != "":
		return "what it says cannot be true: " + m.untruth + ". Its agent is broken or not ours: replace it, and start it again"
	case !m.up:
		return "dead"
	case m.record.GetDrained() != nil:
		return "drained by " + m.record.Drained.GetBy().GetName() + ": " + m.record.Drained.Reason
	case m.record.GetCordoned() != nil:
		return "cordoned by " + m.record.Cordoned.GetBy().GetName() + ": " + m.record.Cordoned.Reason
	case m.ledger.GetTrouble() != "":
		return "in trouble: " + m.ledger.Trouble
	case m.benchWhy != "":
		return "benched: " + m.benchWhy
	}
	return ""
}

// describe is the machine as the fabric knows it.
func (m *machine) describe(levels []string) topology.Machine {
	a := m.record.GetAnnouncement()
	d := topology.Machine{
		ID: m.id, Total: messages.FromResources(a.GetTotal()), Labels: messages.FromLabels(a.GetLabels()),
		Vocabulary: a.GetVocabulary(),
	}
	// Where a machine stands can be selected as its labels can: both are one in `get nodes -l`.
	d.Labels = append(d.Labels, messages.FromLabels(a.GetPlace())...)
	d.Labels = append(d.Labels, messages.NetworkLabels(a.GetNetworks()...)...)
	// A whole machine is all its healthy devices: one that is out of service must
	// not keep the rest from ever counting as whole.
	d.Broken = int32(actors.OutOfService(a, m.ledger))
	d.Total.MilliGPU -= topology.WholeGPU * int64(actors.OutOfService(a, m.ledger))
	if len(a.GetGpus()) > 0 {
		d.GPUType = a.Gpus[0].Type
	}
	for _, level := range levels {
		d.Place = append(d.Place, placeAt(a, level))
	}
	return d
}

// placeAt is the name of a machine's place on a level; machines that do not say
// stand together.
func placeAt(a *messages.Announcement, level string) string {
	for _, l := range a.GetPlace() {
		if l.Key == level && l.Value != "" {
			return l.Value
		}
	}
	return "default"
}

// rackOf names the rack actor of a machine: all its places, since two zones may
// each have a rack of one name.
func (m *machine) rackOf(levels []string) string {
	var names []string
	for _, level := range levels {
		names = append(names, placeAt(m.record.GetAnnouncement(), level))
	}
	return strings.Join(names, ".")
}

// finestPlace is what people call the machine's rack.
func (m *machine) finestPlace(levels []string) string {
	if len(levels) == 0 {
		return ""
	}
	return placeAt(m.record.GetAnnouncement(), levels[len(levels)-1])
}
