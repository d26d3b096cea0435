package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates nodes whose agent lies. The Node is the real one and keeps an honest ledger, but its messages are
// changed on their way out. A real link would drop some of these messages, and the simulation drops them too. For
// checkers that compare a node's messages with the truth, a node that lied stays a liar for the rest of the run. Rules
// about honest nodes continue to apply to it.

// lies lists the values that a lying node may change, by name. Each function reports whether it changed the message.
var lies = []struct {
	name string
	tell func(*machine, messages.Message) bool
}{
	{"port", lie(liePort)},
	{"address", lie(lieAddress)},
	{"ranks", lie(lieRanks)},
	{"grants", lie(lieGrants)},
	{"devices", lie(lieDevices)},
	{"token", lieToken},
	{"capacity", inBooks(lieCapacity)},
	{"gpus", inBooks(lieGpus)},
	{"labels", lie(lieLabels)},
	{"negative", inBooks(lieNegative)},
	{"versions", inBooks(lieVersions)},
	{"intrudes", inBooks(lieIntrudes)},
	{"epoch", lie(lieEpoch)},
	{"slices", inBooks(lieSlices)},
	{"shortage", lie(lieShortage)},
	{"claims", lie(lieClaims)},
}

// lie applies a lie to messages of one type.
func lie[W messages.Message](tell func(*machine, W) bool) func(*machine, messages.Message) bool {
	return func(m *machine, word messages.Message) bool {
		w, is := word.(W)
		return is && tell(m, w)
	}
}

// inBooks applies a lie to the ledger in a message, if it has one.
func inBooks(tell func(*machine, *messages.LedgerReport) bool) func(*machine, messages.Message) bool {
	return func(m *machine, word messages.Message) bool {
		l := told(word)
		return l != nil && tell(m, l)
	}
}

// liePrefix precedes a lie's name in the counters of faults.
const liePrefix = "lie-"

// Lies returns the names of all lies.
func Lies() []string {
	var names []string
	for _, l := range lies {
		names = append(names, l.name)
	}
	return names
}

// liar makes a node of the cluster lie for a while, about one thing or about several.
func liar(f *faults, m *machine) bool {
	if m.gone || slices.ContainsFunc(f.w.machines, func(m *machine) bool { return m.lies != nil }) {
		return false // one at a time, because two nodes that agree are believed
	}
	var names []string
	for range f.w.luck.span(1, 3) {
		names = append(names, lies[f.w.luck.below(len(lies))].name)
	}
	f.w.lie(m, names...)
	f.until(f.w.luck.between(f.w.draw.Pace, 4*f.w.draw.Pace), func() { f.w.repent(m) })
	return true
}

// lie makes a node lie from now on.
func (w *World) lie(m *machine, names ...string) {
	m.lies, m.lied, m.fibbed = names, true, true
	w.say("%s lies about %s", m.address, strings.Join(names, ", "))
}

// mayLie reports whether a leader's view of a node may rest on a lie that was sent since then or shortly before.
func (m *machine) mayLie(since instant) bool {
	return m.lies != nil || m.fibbed && m.repented.plus(time.Minute) > since
}

// repent replaces the liar's agent with an honest one.
func (w *World) repent(m *machine) {
	m.lies, m.repented = nil, w.engine.now
	if m.proc != nil {
		m.proc.crash()
	}
}

// tellLies changes a message on its way out. It returns nil if a real link would drop the message.
func (m *machine) tellLies(word messages.Message) messages.Message {
	if r := told(word); r != nil {
		m.books = proto.Clone(r).(*messages.LedgerReport)
	}
	if r, is := word.(*messages.Reserved); is && m.books != nil && slices.Contains(m.lies, "shortage") {
		// The remaining lies are below.
		word = &messages.Refused{Origin: r.Origin, Ledger: proto.Clone(m.books).(*messages.LedgerReport)}
	}
	for _, l := range lies {
		if slices.Contains(m.lies, l.name) && l.tell(m, word) {
			m.w.fired(liePrefix + l.name)
		}
	}
	if v, is := word.(interface{ Validate() error }); is && v.Validate() != nil {
		m.w.count("net.refused", 1)
		return nil
	}
	return word
}

func liePort(_ *machine, r *messages.Reserved) bool {
	had := r.RendezvousPort != 0
	r.RendezvousPort = 0
	return had
}

func lieAddress(_ *machine, r *messages.Reserved) bool {
	r.Address = []string{"", "nowhere at all", "a=b"}[r.Grants[0].Rank%3]
	return true
}

func lieRanks(_ *machine, r *messages.Reserved) bool {
	r.Grants[0].Rank += int32(len(r.Grants)) // an invented rank, or the rank of another task
	return true
}

// lieGrants grants less than requested: fewer ranks, or half of the only one.
func lieGrants(_ *machine, r *messages.Reserved) bool {
	switch {
	case len(r.Grants) > 1:
		r.Grants = r.Grants[:len(r.Grants)-1]
	case len(r.Grants[0].Gpus) > 1:
		r.Grants[0].Gpus = r.Grants[0].Gpus[:1]
		r.Grants[0].Amount.MilliGpu = r.Grants[0].Gpus[0].Milli
	default:
		r.Grants[0].Amount.MemoryBytes /= 2
	}
	return true
}

func lieDevices(m *machine, r *messages.Reserved) bool {
	if len(r.Grants[0].Gpus) == 0 {
		return false
	}
	r.Grants[0].Gpus[0].GpuId = m.machineID + "-gpu-of-nobody"
	return true
}

// lieToken answers for an attempt that never existed.
func lieToken(_ *machine, word messages.Message) bool {
	switch word.(type) {
	case *messages.Reserved, *messages.Committed, *messages.Prepared, *messages.Started:
		word.(interface{ GetOrigin() *messages.Origin }).GetOrigin().Token.Counter += 1 << 40
		return true
	}
	return false
}

// told returns the ledger in a message, or nil.
func told(word messages.Message) *messages.LedgerReport {
	if w, is := word.(interface{ GetLedger() *messages.LedgerReport }); is {
		return w.GetLedger()
	}
	return nil
}

func lieCapacity(m *machine, l *messages.LedgerReport) bool {
	const more = 8
	l.Total.MilliGpu += more * topology.WholeGPU
	l.Free.MilliGpu += more * topology.WholeGPU
	for i := range more {
		l.FreeGpus = append(l.FreeGpus, &messages.GpuShare{
			GpuId: fmt.Sprintf("%s-more-%d", m.machineID, i), Milli: topology.WholeGPU,
		})
	}
	return true
}

// lieGpus reports one GPU as free twice.
func lieGpus(_ *machine, l *messages.LedgerReport) bool {
	if len(l.FreeGpus) == 0 {
		return false
	}
	l.FreeGpus = append(l.FreeGpus, l.FreeGpus[0])
	return true
}

func lieLabels(m *machine, h *messages.Hello) bool {
	h.Announcement.Labels = append(h.Announcement.Labels, &messages.Label{Key: "mood", Value: fmt.Sprint(m.w.sent % 3)})
	return true
}

// lieClaims announces more than the node's certificate allows. The scheduler's link, which is not simulated, would
// report this doubt.
func lieClaims(_ *machine, h *messages.Hello) bool {
	h.Doubt = "it announces GPU count 8, but its certificate allows \"4\""
	return true
}

func lieNegative(_ *machine, l *messages.LedgerReport) bool {
	l.Free.MemoryBytes = -1 << 30
	return true
}

func lieVersions(m *machine, l *messages.LedgerReport) bool {
	l.Version = m.w.sent % 7
	return true
}

// lieEpoch claims to obey a leader that nobody else knows.
func lieEpoch(_ *machine, h *messages.Hello) bool {
	h.Epoch, h.Ledger = h.Epoch+restoredEpochs, nil
	return true
}

// lieSlices adds an allocation that was never committed, of an unknown job.
func lieSlices(_ *machine, l *messages.LedgerReport) bool {
	l.Slices = append(l.Slices, &messages.SliceReport{
		Token: &messages.Token{Epoch: 1, Counter: madeUpCounter}, Job: "nobodys",
		State: messages.SliceState_SLICE_STATE_STARTED,
	})
	return true
}

// madeUpCounter is higher than any leader counts.
const madeUpCounter = 1 << 41

// madeUp reports whether a liar invented an attempt.
func madeUp(t topology.Token) bool { return t.Counter == madeUpCounter }

// lieIntrudes claims a part of a gang that runs on another node, in an earlier state than the true one.
func lieIntrudes(m *machine, l *messages.LedgerReport) bool {
	for _, other := range m.w.machines {
		for _, s := range other.slices() {
			if m.proc.node.Ledger().Allocation(s.Token) == nil {
				if m.intruded == nil {
					m.intruded = map[topology.Token]bool{}
				}
				m.intruded[s.Token] = true
				l.Slices = append(l.Slices, &messages.SliceReport{
					Token: messages.ToToken(s.Token), Job: string(s.Job), State: messages.SliceState_SLICE_STATE_PREPARED,
				})
				return true
			}
		}
	}
	return false
}

// lieShortage refuses a request repeatedly, although its ledger shows that all of it is free.
func lieShortage(_ *machine, r *messages.Refused) bool {
	if r.Ledger == nil {
		return false
	}
	r.Reason = messages.RefusalReason_REFUSAL_REASON_SHORTAGE
	r.Ledger.Free, r.Ledger.FreeGpus = r.Ledger.Total, nil
	return true
}

// anythingAtAll makes a node send arbitrary messages at full speed, instead of one lie.
const anythingAtAll = "anything"

// Lie makes a node lie from now on about the given topics, as Lies lists them. Without topics, an honest agent replaces
// the liar.
func (w *World) Lie(number int, about ...string) {
	if m := w.at(number); len(about) == 1 && about[0] == anythingAtAll {
		w.harms()
		w.rage(m)
		return
	} else if len(about) == 0 {
		m.rages = false
	}
	for _, name := range about {
		if !slices.Contains(Lies(), name) {
			panic("nobody lies about " + name)
		}
	}
	w.harms()
	if m := w.at(number); len(about) > 0 {
		w.lie(m, about...)
	} else {
		w.repent(m)
	}
}

// hardware changes a node's hardware, honestly. Its agent ends, and the next one announces other memory, other labels,
// one GPU more or one less. Running tasks keep their resources.
func hardware(f *faults, m *machine) bool {
	if m.proc == nil || m.original != nil {
		return false
	}
	a := copyOf(m.announcement)
	switch f.w.luck.below(4) {
	case 0:
		a.Total.MemoryBytes = a.Total.MemoryBytes / 8 * int64(f.w.luck.span(6, 9))
	case 1:
		a.Total.MilliCpu = a.Total.MilliCpu / 8 * int64(f.w.luck.span(6, 9))
	case 2:
		a.Labels = []*messages.Label{{Key: "shelf", Value: fmt.Sprint(f.w.luck.below(3))}}
	default:
		a.Gpus = a.Gpus[:max(len(a.Gpus)-1, 1)]
		a.Total.MilliGpu = int64(len(a.Gpus)) * topology.WholeGPU
	}
	f.w.rebuild(m, a)
	return true
}

// rebuild makes the node's next agent announce this.
func (w *World) rebuild(m *machine, a *messages.Announcement) {
	w.say("%s has other hardware from its agent's next start: %v", m.address, a.Total)
	m.announcement = a
	if m.proc != nil {
		m.proc.crash()
	}
}

// Rebuild changes the memory, rack and labels of a node. The agent reads them at its next start. An earlier agent knows
// only the host network.
func (w *World) Rebuild(number int, memory int64, rack string, earlier bool, labels ...*messages.Label) {
	w.harms()
	m := w.at(number)
	a := copyOf(m.announcement)
	if memory > 0 {
		a.Total.MemoryBytes = memory
	}
	if rack != "" {
		a.Place[len(a.Place)-1].Value = rack
	}
	a.Labels = labels
	if m.unversed = earlier; earlier {
		a.Networks = nil
	}
	w.rebuild(m, a)
}
