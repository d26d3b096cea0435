package mirror

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns random facts about nodes: the use of each device, and the records of the jobs that use it.

const dayMs = 24 * 3600 * 1000

// rig is a Mirror of a few nodes, with the facts that the Mirror received.
type rig struct {
	*rapid.T
	m      *Mirror
	clock  *moving
	nodes  map[string]*NodeShown
	parts  map[string][]devicePart // by node: the parts of its devices
	jobs   map[string]*messages.JobStatus
	seen   map[topology.NodeID]topology.Seen
	kept   map[topology.KeepID][]topology.Slot
	wants  goodput.Wants
	began  int64
	joined map[string]bool // nodes that are counted
	sums   map[sumKey]*goodput.Amounts
	did    map[topology.Token]map[sumKey]int64 // GPU time that an attempt has used
	ran    map[topology.Token]int64            // the last time at which an attempt used GPUs, or slightly earlier
	tokens uint64
}

type sumKey struct {
	kind goodput.Kind
	day  int64
	name string
}

// devicePart holds the share of a device that one holder has.
type devicePart struct {
	milli int64
	what  string // free, failed, or the allocation's state
	slice *messages.SliceReport
}

var rigIDs = []string{"n0", "n1", "n2", "n3"} // n3 has no GPUs

func newRig(t *rapid.T) *rig {
	r := &rig{
		T: t, clock: &moving{}, nodes: map[string]*NodeShown{}, parts: map[string][]devicePart{},
		jobs: map[string]*messages.JobStatus{}, seen: map[topology.NodeID]topology.Seen{},
		kept: map[topology.KeepID][]topology.Slot{}, joined: map[string]bool{}, sums: map[sumKey]*goodput.Amounts{},
		did: map[topology.Token]map[sumKey]int64{}, ran: map[topology.Token]int64{},
	}
	r.clock.now = time.Second
	r.began = r.clock.WallMs()
	p := &actors.Ports{Constants: actors.DefaultConstants(), Clock: r.clock, Host: r.clock}
	r.m = New(p, 1, []string{"zone", "rack"}).(*Mirror)
	for _, id := range rigIDs {
		r.showNode(id)
	}
	r.showRooms()
	return r
}

func (r *rig) number(most int) int { return rapid.IntRange(0, most).Draw(r.T, "number") }
func (r *rig) chance(one int) bool { return r.number(one-1) == 0 }
func (r *rig) tell(message any) {
	r.m.Receive(&questionContext{who: "tells", message: message, told: func(string, any) {}})
}

// showJob sends an update of a job: progress of its attempt, or a new attempt.
func (r *rig) showJob() {
	id := fmt.Sprint("j", r.number(2))
	was := r.jobs[id].GetAttempt()
	a := &messages.AttemptRecord{Token: was.GetToken(), StartedUnixMs: was.GetStartedUnixMs(), CommittedUnixMs: 1,
		Saved: was.GetSaved()}
	phase := "running"
	switch {
	case was == nil || was.End != nil:
		r.tokens++
		a.Token, a.StartedUnixMs = messages.ToToken(topology.Token{Epoch: 1, Counter: r.tokens}), 0
		a.Saved = nil
	case a.StartedUnixMs == 0 && r.chance(2):
		a.StartedUnixMs = r.clock.WallMs()
	case r.chance(4):
		a.Saved = &messages.Saved{AtUnixMs: r.clock.WallMs()}
		clear(r.did[messages.FromToken(a.Token)])
	case r.chance(2):
		cause, token := messages.Cause(r.number(18)), messages.FromToken(a.Token)
		if r.clock.WallMs()-r.ran[token] > dayMs/2 { // the end came too late to change the sums of its day
			cause = messages.Cause_CAUSE_SUCCEEDED
		}
		a.End = &messages.End{Cause: cause}
		r.tell(RunEnded{token, cause, a.Saved.GetAtUnixMs()})
		r.lose(token, cause)
	}
	if r.chance(4) {
		phase = "stopping"
	}
	for _, node := range rigIDs {
		a.Places = append(a.Places, &messages.Place{Node: node})
	}
	s := statusOf(id, map[string]string{"j0": "ann", "j1": "ann", "j2": "bob"}[id], phase, with(a))
	r.jobs[id] = s
	r.tell(JobShown{s})
}

// lose counts the GPU time of an ended attempt as lost, unless the attempt had reached its purpose.
func (r *rig) lose(t topology.Token, cause messages.Cause) {
	enough := []messages.Cause{
		messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_TIME_LIMIT,
	}
	if slices.Contains(enough, cause) {
		return
	}
	for key, n := range r.did[t] {
		r.sums[key].Of[goodput.Productive] -= n
		r.sums[key].Of[goodput.Lost] += n
		r.sums[key].Lost[cause] += n
	}
}

// drawAllocation returns an allocation of a job's current attempt, of an earlier attempt, or of an unknown job.
func (r *rig) drawAllocation() *messages.SliceReport {
	s := &messages.SliceReport{
		Job: fmt.Sprint("j", r.number(3)), State: messages.SliceState(r.number(5) + 1), Vacated: r.chance(8),
		Token: messages.ToToken(topology.Token{Epoch: 1, Counter: 1_000 + uint64(r.number(1_000_000))}),
	}
	if a := r.jobs[s.Job].GetAttempt(); a != nil && !r.chance(4) {
		s.Token = a.Token
	}
	return s
}

// showNode sends the present state of a node.
func (r *rig) showNode(id string) {
	if old := r.nodes[id]; old != nil && old.Status.Record.Announcement == nil {
		return
	}
	shown := &NodeShown{Outage: Outage(r.number(3)), Free: goodput.Unwanted, Untrue: r.chance(8)}
	if r.chance(3) {
		shown.Free = []goodput.Class{goodput.Closed, goodput.Broken}[r.number(1)]
	}
	a := &messages.Announcement{Total: &messages.Resources{MilliGpu: 3000}}
	l := &messages.LedgerReport{Free: &messages.Resources{}, WithdrawnGpus: []string{"of long ago"}}
	for _, gpu := range []string{"g0", "g1", "g2"} {
		a.Gpus = append(a.Gpus, &messages.Gpu{Id: gpu, Type: map[string]string{"n0": "a", "n1": "a", "n2": "b"}[id]})
	}
	shown.Status = &messages.NodeStatus{Phase: "up", Ledger: l, Record: &messages.NodeRecord{
		Id: id, Announcement: a, JoinedUnixMs: r.began,
	}}
	if id == "n3" {
		a.Total, a.Gpus = &messages.Resources{MilliCpu: 8000}, nil
	}
	if r.chance(5) {
		shown.Status.Phase = []string{"dead", "unknown"}[r.number(1)]
	}
	if shown.Status.Phase == "unknown" && r.joined[id] {
		shown.Status.Phase = "up"
	}
	if !r.joined[id] && r.chance(9) {
		shown.Status.Record.Removed = &messages.Deed{}
	}
	r.parts[id] = nil
	for _, gpu := range a.Gpus {
		r.drawDevice(id, gpu.Id, l)
	}
	r.nodes[id] = shown
	r.tell(*shown)
	if shown.Status.Phase == "unknown" || shown.Status.Record.Removed != nil || r.joined[id] {
		return
	}
	r.joined[id] = true
	r.makeUp(id)
}

// drawDevice draws the use of a device, and enters it into the ledger.
func (r *rig) drawDevice(id, gpu string, l *messages.LedgerReport) {
	withdrawn, free := r.chance(6), int64(1000)
	for range r.number(2) {
		n := min(free, []int64{1000, 300, 500}[r.number(2)])
		if n == 0 {
			break
		}
		s := r.drawAllocation()
		s.Grants = []*messages.Grant{{Gpus: []*messages.GpuShare{{GpuId: gpu, Milli: n}}}}
		if at := r.number(3); at < len(l.Slices) && !l.Slices[at].Vacated && l.Slices[at].State != 6 {
			s = l.Slices[at] // one allocation may use several devices
			s.Grants = append(s.Grants, &messages.Grant{Gpus: []*messages.GpuShare{{GpuId: gpu, Milli: n}}})
		} else {
			l.Slices = append(l.Slices, s)
		}
		if s.Vacated || s.State == messages.SliceState_SLICE_STATE_OVER {
			continue
		}
		free -= n
		if !withdrawn {
			r.parts[id] = append(r.parts[id], devicePart{n, "held", s})
		}
	}
	if withdrawn {
		l.WithdrawnGpus = append(l.WithdrawnGpus, gpu)
		r.parts[id] = append(r.parts[id], devicePart{1000, "broken", nil})
		return
	}
	if free > 0 {
		l.FreeGpus = append(l.FreeGpus, &messages.GpuShare{GpuId: gpu, Milli: free})
		l.Free.MilliGpu += free
		r.parts[id] = append(r.parts[id], devicePart{free, "free", nil})
	}
}

// showRooms sends the free capacity of nodes, and the reservations on them.
func (r *rig) showRooms() {
	shown := RoomsShown{}
	for i, id := range []topology.NodeID{"n0", "n1", "n2", "n3", "n9"} {
		if len(r.seen) == 5 && r.chance(2) {
			continue
		}
		m := topology.Seen{ID: id, Machine: &topology.Machine{
			ID: id, Place: [][]string{{"z1", "r1"}, {"z1", "r2"}, {"z2", "r2"}, {"z2", "r2"}, {"z2", "r3"}}[i],
			Total: topology.Resources{MilliGPU: 3000}, Broken: int32(r.number(1)),
		}}
		m.Free.WholeGPUs = int32(r.number(3 + int(m.Machine.Broken)))
		if r.chance(3) && m.Free.WholeGPUs < 3 {
			m.Free.Parts = []int64{400, 100}[:r.number(2)]
		}
		if r.chance(4) {
			m.Why = "out"
		}
		if id == "n9" && r.chance(2) {
			m = topology.Seen{ID: id}
		}
		r.seen[id] = m
		shown.Machines, shown.Holders = append(shown.Machines, m), append(shown.Holders, nil)
	}
	for _, id := range []topology.KeepID{"k1", "k2"} {
		if r.chance(2) {
			continue
		}
		var slots []topology.Slot
		for rank := range r.number(3) {
			node := topology.NodeID(rigIDs[r.number(2)])
			amount := topology.Resources{MilliGPU: 700}
			slots = append(slots, topology.Slot{Rank: topology.Rank(rank), Node: node, Amount: amount})
		}
		slices.SortFunc(slots, func(a, b topology.Slot) int { return int(a.Node[1]) - int(b.Node[1]) })
		r.kept[id] = slots
		shown.Kept = append(shown.Kept, topology.Kept{ID: id, Slots: slots})
	}
	r.tell(shown)
}

func (r *rig) step() {
	switch r.number(5) {
	case 0, 1:
		r.showJob()
	case 2, 3:
		r.showNode(rigIDs[r.number(3)])
	case 4:
		r.showRooms()
	case 5:
		r.wants = goodput.Wants{Any: r.chance(3), Types: []string{"b", "a"}[:r.number(2)]}
		r.tell(WantsShown{r.wants})
	}
	if r.chance(2) {
		r.pass(rapid.SampledFrom([]int64{1, 60_000, 3_600_000, 9 * 3_600_000}).Draw(r.T, "ms"))
	}
}

// TestGPUFacts compares the Mirror's counts of GPUs with the facts that the Mirror received about the nodes.
func TestGPUFacts(t *testing.T) {
	for range 5 { // each runs one hundred cases
		rapid.Check(t, func(t *rapid.T) {
			r := newRig(t)
			for range rapid.IntRange(1, 30).Draw(t, "steps") {
				r.step()
				if r.chance(3) {
					r.checkStocks()
					r.checkLevels()
					r.checkTime()
				}
			}
		})
	}
}

func sorted[K ~string, V any](all map[K]V) []K { return slices.Sorted(maps.Keys(all)) }
