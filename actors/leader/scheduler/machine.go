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

// This file owns what the leader knows of one machine: its record, its agent, and
// how the ledger that it last reported is read. What of it is free, and who may be
// there, the view knows (topology/belief).

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
	vocabulary  int32               // what its agent understands
	users       string              // the rule by which it runs jobs as accounts, as a key; its Hello tells the rule
	accounts    *topology.Accounts  // the accounts of that rule; nil: any
	usersShown  *messages.NodeUsers // the rule, as people see it in lists …
	usersNamed  *messages.NodeUsers // … and of one machine
	pastBoots   []string            // that this leader has seen end
	turnedAway  string              // the machine that was last refused under this name
	halted      string              // why nothing is admitted anywhere
	ledger      *messages.LedgerReport
	reportedAt  actors.Instant  // when it came
	room        *belief.Machine // what is free there, and who may be there

	launchFailed int     // in a row, by its own fault
	doubts       []doubt // failures since it last did well that may be the jobs'
	untrue       int     // answers that cannot be true, in a row
	untruth      string  // why its books cannot be true; empty: they can
	health       health  // what its checks mean for it
	doubt        string  // why what it announces is beyond what its certificate allows; empty: it is not

	obeys      uint64           // the higher epoch that it follows; 0: it follows ours, or none
	strange    []topology.Token // attempts that it has and the store does not know
	accuses    string           // what that says of the store
	withholds  []*livingJob     // which are not run again for it
	drainSeq   uint64
	closingSeq uint64
	drainEnds  actors.Instant // zero: no drain with a deadline
	closes     actors.Instant // when it is to be drained; zero: nobody ordered that
	returns    actors.Instant // from its bench
	awaited    actors.Instant // when that is looked at next; zero: not at all
	endsStale  bool           // the horizon is behind what is known of its ends
	withdrawn  int            // announced devices that the view knows to be out of service
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

// slice finds a token in the newest ledger.
func (m *machine) slice(t topology.Token) *messages.SliceReport {
	for _, s := range m.ledger.GetSlices() {
		if messages.FromToken(s.Token) == t {
			return s
		}
	}
	return nil
}

// report takes a newer ledger over.
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
		b.Slices = make([]belief.Slice, 0, len(l.Slices))
	}
	for _, sl := range l.Slices {
		b.Slices = append(b.Slices, belief.Slice{
			Token: messages.FromToken(sl.Token), Committed: committed(sl),
			Over: sl.Vacated || sl.State == messages.SliceState_SLICE_STATE_OVER,
		})
	}
	return b
}

// pardon forgets what the machine did badly.
func (m *machine) pardon() {
	m.launchFailed, m.doubts, m.untrue = 0, nil, 0
	m.room.Pardon()
}

// benchEnds is when the machine returns from its bench; 0: it is on none.
func (m *machine) benchEnds() int64 {
	if m.room.Benched() == "" {
		return 0
	}
	return int64(m.returns)
}

// standing returns the state of the node for the view, in addition to its ledger.
func (m *machine) standing() belief.Standing {
	return belief.Standing{Believed: m.up && m.untruth == "", Closed: m.closed()}
}

// closed is why nothing new goes there; empty: it is open.
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
	outageUnwell
	outageTrouble
	outageBenched
)

var outageWords = [...]string{
	outageUnheard: "not heard", outageDead: messages.NodeDead, outageDrained: "drained", outageCordoned: "cordoned",
	outageTrouble: "in trouble", outageUnwell: "unhealthy", outageBenched: "backed off",
}

// outage is why nothing new goes to the machine, as such machines are counted and in full; empty: it is open. What the
// leader holds against it comes before what it is, and is told of by name: it is passed over where machines are
// counted.
func (m *machine) outage(counted bool) (outage, string) {
	switch {
	case !counted && m.halted != "":
		return outageNone, m.halted
	case !counted && m.quarantine() != "":
		return outageNone, m.quarantine()
	case !counted && m.unread():
		return outageCordoned, m.record.Cordoned.Reason
	case !m.everUp:
		return outageUnheard, "not heard since this leader took over"
	case !counted && m.untruth != "":
		return outageNone, "what it says cannot be true: " + m.untruth +
			". Its agent is broken or not ours: replace it, and start it again"
	case !counted && m.doubt != "":
		return outageNone, "quarantined, its tasks are left alone: " + m.doubt + ". If it is right, an admin says so: by a " +
			"join token for its name that allows it"
	case !m.up:
		return outageDead, messages.NodeDead
	case m.record.GetDrained() != nil:
		return outageDrained, "drained by " + m.record.Drained.GetBy().GetName() + ": " + m.record.Drained.Reason
	case m.record.GetCordoned() != nil:
		return outageCordoned, "cordoned by " + m.record.Cordoned.GetBy().GetName() + ": " + m.record.Cordoned.Reason
	case m.health == healthClosed:
		return outageUnwell, "not well, until its own check says otherwise: " + m.ledger.GetUnwell()
	case m.ledger.GetTrouble() != "":
		return outageTrouble, "in trouble: " + m.ledger.Trouble
	case m.room.Benched() != "":
		return outageBenched, "benched: " + m.room.Benched()
	}
	return outageNone, ""
}

// describe is the machine as the fabric knows it.
func (m *machine) describe(levels []string) topology.Machine {
	a := m.record.GetAnnouncement()
	d := topology.Machine{
		ID: m.id, Total: messages.FromResources(a.GetTotal()), Labels: messages.FromLabels(a.GetLabels()),
		Vocabulary: a.GetVocabulary(), Accounts: m.accounts,
	}
	// Where a machine stands can be selected as its labels can: both are one in `get nodes -l`.
	d.Labels = append(d.Labels, messages.FromLabels(a.GetPlace())...)
	d.Labels = append(d.Labels, messages.NetworkLabels(a.GetNetworks()...)...)
	d.Labels = append(d.Labels, a.SecretLabels()...)
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

// finestPlace returns the name of the node's rack, which logs and listings show.
func (m *machine) finestPlace(levels []string) string {
	if len(levels) == 0 {
		return ""
	}
	return placeAt(m.record.GetAnnouncement(), levels[len(levels)-1])
}

// What follows owns how machines decide about accounts, as the Scheduler knows and shows it.

// decides notes how a machine decides about accounts, and reports whether no other decides in that way: then every job
// that waits has to look again where it may go.
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

// maxUsersShown limits the accounts, and the mapped owners, that a reply about one machine names.
const maxUsersShown = 16

// usersShown is how a machine decides about users, as people see it in lists of machines; nil: it did not say.
func usersShown(u *messages.NodeUsers) *messages.NodeUsers {
	if u == nil {
		return nil
	}
	return &messages.NodeUsers{
		Any: u.Any, More: u.More, OwnCount: int32(len(u.Own)), MappedCount: int32(len(u.Mapped)),
	}
}

// usersNamed adds the first names, for a reply about one machine.
func usersNamed(u *messages.NodeUsers) *messages.NodeUsers {
	named := usersShown(u)
	if named != nil {
		named.Own = u.Own[:min(len(u.Own), maxUsersShown)]
		named.Mapped = u.Mapped[:min(len(u.Mapped), maxUsersShown)]
	}
	return named
}

// What follows owns machines of another cluster: one that was moved here with its data directory, one whose --join is
// wrong, or all of them where somebody made a cluster again, with an empty store, over the machines of an old one.
// Such a machine is not taken, and nothing is concluded from its epoch: over there they are counted by themselves, and
// believed here one machine would stop all admissions. It is the actors that refuse it and not the link, so that
// people read of it at both ends.

// foreign reports whether a machine says that it belongs to another cluster. An
// agent of an earlier version does not say.
func (s *nodeTable) foreign(h *messages.Hello) bool {
	return h.ClusterId != "" && h.ClusterId != s.p.ClusterID
}

// turnForeignAway refuses it as often as it says Hello, and tells people once for
// each link. It is asked again for as long as it is linked: the refusal may have
// been lost.
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
