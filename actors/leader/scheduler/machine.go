package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the leader's knowledge of one node: its record, its agent, and the interpretation of its last ledger.
// The view owns the free capacity and the attempts on the node (topology/belief).

// machine is one node as the Scheduler knows it.
type machine struct {
	id     topology.NodeID
	record *messages.NodeRecord // as on disk
	edits  nodeEdits
	rack   *actor.PID
	finest string // its domain at the finest level

	up          bool
	everUp      bool // under this leader
	enrolled    uint64
	incarnation *messages.Incarnation
	vocabulary  int32               // features of its agent
	users       string              // its account rule as a key, from its Hello
	accounts    *topology.Accounts  // accounts that the rule accepts; nil: any
	usersShown  *messages.NodeUsers // the rule as shown in lists …
	usersNamed  *messages.NodeUsers // … and for a query of this node
	pastBoots   []string            // that ended under this leader
	turnedAway  string              // ID of the machine that was last refused under this name
	halted      string              // why all admissions are stopped
	ledger      *messages.LedgerReport
	reportedAt  actors.Instant  // arrival of that ledger
	room        *belief.Machine // free capacity and attempts on the node

	rest         rest           // back-off because of its failures
	examined     actors.Instant // when it was last told to run its health checks; 0: never
	launchFailed int            // consecutive failures by its own fault
	doubts       []doubt        // failures after its last success, possibly the jobs' fault
	untrue       int            // consecutive impossible answers
	untruth      string         // why its ledger is impossible; empty: it is not
	health       health         // effect of its health checks
	doubt        string         // why its announcement exceeds its certificate; empty: it does not

	obeys      uint64           // the higher epoch that it follows; 0: ours or none
	strange    []topology.Token // attempts on it that the store does not contain
	accuses    string           // the conclusion about the store
	withholds  []*livingJob     // jobs that are not run again because of it
	drainSeq   uint64
	closingSeq uint64
	drainEnds  actors.Instant // zero: no drain with a deadline
	closes     actors.Instant // time of its ordered drain; zero: none
	returns    actors.Instant // end of its back-off
	awaited    actors.Instant // timer for that; zero: none
	endsStale  bool           // the horizon lacks a change of its ends
	withdrawn  int            // announced devices that are out of service in the view
}

// pastBootsKept is the number of earlier boots by which a late Hello is recognized. A Hello is late by minutes, and a
// node does not boot more often in that time.
const pastBootsKept = 16

// outlived reports whether a Hello comes from an earlier start of the agent than a known one. It may arrive late. Its
// ledger would make present tasks seem gone.
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

// slice finds the allocation of a token in the newest ledger.
func (m *machine) slice(t topology.Token) *messages.SliceReport {
	for _, s := range m.ledger.GetSlices() {
		if messages.FromToken(s.Token) == t {
			return s
		}
	}
	return nil
}

// report stores a newer ledger.
func (m *machine) report(l *messages.LedgerReport, now actors.Instant) {
	m.ledger, m.reportedAt = l, now
	m.room.Report(booksOf(l))
}

// booksOf returns the part of a ledger that planning uses.
func booksOf(l *messages.LedgerReport) belief.Books {
	b := belief.Books{
		Version: l.Version, UIDs: l.Uids,
		Free: topology.CapacityOf(messages.FromResources(l.Free), messages.FromShares(l.FreeGpus)),
	}
	if len(l.Slices) > 0 {
		b.Allocations = make([]belief.Allocation, 0, len(l.Slices))
	}
	for _, sl := range l.Slices {
		b.Allocations = append(b.Allocations, belief.Allocation{
			Token: messages.FromToken(sl.Token), Committed: committed(sl),
			Over: sl.Vacated || sl.State == messages.SliceState_SLICE_STATE_OVER,
		})
	}
	return b
}

// pardon resets the failure counts of the node.
func (m *machine) pardon() {
	m.launchFailed, m.doubts, m.untrue = 0, nil, 0
	m.room.Pardon()
}

// backOffEnds returns when the node's back-off ends; 0 means that it is not backed off.
func (m *machine) backOffEnds() int64 {
	ends := int64(0)
	if why, _ := m.outage(false); why == outageBackedOff {
		ends = int64(m.rest.ends)
	}
	if m.room.BackedOff() != "" {
		ends = max(ends, int64(m.returns))
	}
	return ends
}

// standing returns the state of the node for the view, in addition to its ledger.
func (m *machine) standing() belief.Standing {
	return belief.Standing{Believed: m.up && m.untruth == "", Closed: m.closed()}
}

// closed returns why the node gets no new work. It returns the empty string if it is schedulable.
func (m *machine) closed() string {
	_, why := m.outage(false)
	return why
}

// outage says why a node is out of service, as such nodes are counted.
type outage uint8

const (
	outageNone outage = iota
	outageUnheard
	outageDead
	outageDrained
	outageCordoned
	outageUnhealthy
	outageTrouble
	outageBackedOff
)

var outageWords = [...]string{
	outageUnheard: "not heard", outageDead: messages.NodeDead, outageDrained: "drained", outageCordoned: "cordoned",
	outageTrouble: "failing", outageUnhealthy: "unhealthy", outageBackedOff: "backed off",
}

// outage returns why the node gets no new work: the cause for counts, and the text. The text is empty if the node is
// schedulable. The leader's own reasons against a node come first. They are displayed for the node itself and skipped
// if counted is set.
func (m *machine) outage(counted bool) (outage, string) {
	switch {
	case !counted && m.halted != "":
		return outageNone, m.halted
	case !counted && m.quarantine() != "":
		return outageNone, m.quarantine()
	case !counted && m.unread():
		return outageCordoned, m.record.GetCordoned().GetReason()
	case !m.everUp:
		return outageUnheard, "not heard since this leader took over"
	case !counted && m.untruth != "":
		return outageNone, "its reports are impossible: " + m.untruth +
			"; its agent is broken or not genuine: replace the agent and restart it"
	case !counted && m.doubt != "":
		return outageNone, "quarantined, its tasks continue: " + m.doubt + "; if the node is right, let an admin create a " +
			"join token for its name that allows this"
	case !m.up:
		return outageDead, messages.NodeDead
	case m.record.GetDrained() != nil:
		return outageDrained, "drained by " + m.record.Drained.GetBy().GetName() + ": " + m.record.Drained.Reason
	case m.record.GetCordoned() != nil:
		return outageCordoned, "cordoned by " + m.record.Cordoned.GetBy().GetName() + ": " + m.record.Cordoned.Reason
	case m.health == healthClosed:
		return outageUnhealthy, "unhealthy: " + m.ledger.GetUnwell()
	case m.ledger.GetTrouble() != "":
		return outageTrouble, "failing: " + m.ledger.Trouble
	case m.room.BackedOff() != "":
		return outageBackedOff, "backed off: " + m.room.BackedOff()
	case m.rest.why != "":
		return outageBackedOff, "backed off: " + m.rest.why
	}
	return outageNone, ""
}

// describe returns the node as the topology tree represents it.
func (m *machine) describe(levels []string) topology.Machine {
	a := m.record.GetAnnouncement()
	d := topology.Machine{
		ID: m.id, Total: messages.FromResources(a.GetTotal()), Labels: messages.FromLabels(a.GetLabels()),
		Vocabulary: a.GetVocabulary(), Accounts: m.accounts,
	}
	// The location of a node can be selected like its labels, as in `get nodes -l`.
	d.Labels = append(d.Labels, messages.FromLabels(a.GetPlace())...)
	d.Labels = append(d.Labels, messages.NetworkLabels(a.GetNetworks()...)...)
	d.Labels = append(d.Labels, a.SecretLabels()...)
	// A whole node means all its healthy devices. Otherwise one failed device would prevent the rest from ever counting as
	// whole.
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

// placeAt returns the name of a node's domain at a level. All nodes without a domain at that level share one.
func placeAt(a *messages.Announcement, level string) string {
	for _, l := range a.GetPlace() {
		if l.Key == level && l.Value != "" {
			return l.Value
		}
	}
	return "default"
}

// rackOf names the Rack actor of a node by all its domains, because two zones may each have a rack with the same name.
func (m *machine) rackOf(levels []string) string {
	var names []string
	for _, level := range levels {
		names = append(names, placeAt(m.record.GetAnnouncement(), level))
	}
	return strings.Join(names, ".")
}

// finestPlace returns the name of the node's rack, which logs and listings show.
func (m *machine) finestPlace(levels []string) string {
	if len(levels) == 0 {
		return ""
	}
	return placeAt(m.record.GetAnnouncement(), levels[len(levels)-1])
}

// The rest of this section owns the account rules of nodes, as the Scheduler knows and shows them.

// decides records the account rule of a node, and reports whether no other node has this rule. In that case every
// waiting job must compute its possible nodes again.
func (s *nodeTable) decides(m *machine, u *messages.NodeUsers) (first bool) {
	key := ""
	if u != nil {
		key = "u" + string(messages.Bytes(u))
	}
	if m.users == key {
		return false
	}
	if s.rules[m.users]--; s.rules[m.users] <= 0 {
		delete(s.rules, m.users)
	}
	m.users, m.accounts = key, accountsOf(u)
	m.usersShown, m.usersNamed = usersShown(u), usersNamed(u)
	if key == "" {
		return false
	}
	s.rules[key]++
	return s.rules[key] == 1
}

func accountsOf(u *messages.NodeUsers) *topology.Accounts {
	if u == nil {
		return nil
	}
	a := &topology.Accounts{Any: u.Any, More: u.More, Own: slices.Sorted(slices.Values(u.Own))}
	for _, m := range u.Mapped {
		a.Mapped = append(a.Mapped, topology.MappedAccount{
			Owner: m.GetOwner(), Account: m.GetAccount(), UID: strconv.FormatUint(uint64(m.GetUid()), 10),
		})
	}
	slices.SortFunc(a.Mapped, func(x, y topology.MappedAccount) int { return cmp.Compare(x.Owner, y.Owner) })
	return a
}

// maxUsersShown limits the accounts, and the mapped owners, that a reply about one node names.
const maxUsersShown = 16

// usersShown returns the account rule of a node as lists show it. It returns nil if the node announced none.
func usersShown(u *messages.NodeUsers) *messages.NodeUsers {
	if u == nil {
		return nil
	}
	return &messages.NodeUsers{
		Any: u.Any, More: u.More, OwnCount: int32(len(u.Own)), MappedCount: int32(len(u.Mapped)),
	}
}

// usersNamed adds the first names, for a reply about one node.
func usersNamed(u *messages.NodeUsers) *messages.NodeUsers {
	named := usersShown(u)
	if named != nil {
		named.Own = u.Own[:min(len(u.Own), maxUsersShown)]
		named.Mapped = u.Mapped[:min(len(u.Mapped), maxUsersShown)]
	}
	return named
}

// The rest of this file owns nodes of another cluster. A node may have been moved with its data directory, or its
// --join may be wrong. Or the cluster was recreated with an empty store, over the nodes of the old one. Such a node is
// refused. Its epoch proves nothing, because the other cluster counts its own epochs; here it would stop all
// admissions. The actors refuse it, not the link, so that both logs show the reason.

// foreign reports whether a node belongs to another cluster. An older agent does not report its cluster.
func (s *nodeTable) foreign(h *messages.Hello) bool {
	return h.ClusterId != "" && h.ClusterId != s.p.ClusterID
}

// turnForeignAway refuses every Hello of such a node, and logs it once per link. The leader repeats Lead while the link
// is up, because the refusal may have been lost.
func (s *greeter) turnForeignAway(ctx actor.Context, h *messages.Hello) {
	s.p.Host.Count("scheduler.foreign", 1)
	text := fmt.Sprintf(
		"node belongs to cluster %[2]s, and this is cluster %[1]s: correct its --join; to move it to this cluster "+
			"for good, stop its agent, move the file ledger out of its --data-dir and start the agent, which stops "+
			"all tasks of %[3]s",
		s.p.ClusterID, h.ClusterId, h.ClusterId)
	if who := topology.NodeID(h.Origin.GetNode()); s.greetings.foreign[who] != h.ClusterId {
		s.greetings.foreign[who] = h.ClusterId
		s.p.Log.Error("Failed to register node %s: %s", h.Origin.GetNode(), text)
	}
	s.reject(ctx, h, messages.RejectReason_REJECT_REASON_ANOTHER_CLUSTER, text)
}
