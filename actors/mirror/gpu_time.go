package mirror

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the accounting of the cluster's GPU time. The Mirror counts because it receives every node, attempt
// and planned start anyway, and because its work does not slow the Scheduler. The Scheduler stores the sums with its
// other statistics, so the next leader continues from them.

// These messages pass between the Scheduler and the Mirror.
type (
	// RunEnded reports that the end of an attempt is on disk. Scheduler → Mirror. The Scheduler sends it before the next
	// TakeGPUTime, so a stored record includes exactly the ends that are stored with it.
	RunEnded struct {
		Token topology.Token
		Cause messages.Cause
		// SavedUnixMs is when the gang last acknowledged a checkpoint; 0: never. The Mirror may not show it yet.
		SavedUnixMs int64
	}
	// WantsShown reports which GPU types waiting jobs could use. Scheduler → Mirror, at most once a second.
	WantsShown struct{ goodput.Wants }
	// TakeGPUTime asks for a GPUTimeTaken. Scheduler → Mirror.
	TakeGPUTime struct{}
	// GPUTimeTaken holds all GPU time counted by now. Mirror → Scheduler.
	GPUTimeTaken struct{ Time *messages.GpuTime }
	// GPUTimeMoved reports that the sums changed after the last TakeGPUTime. Mirror → Scheduler, once per TakeGPUTime.
	GPUTimeMoved struct{}
	// GPUTimeRecalled holds the sums of earlier leaders, the attempts that ended after those sums were stored, and the
	// removed nodes. Scheduler → Mirror, before the first NodeShown.
	GPUTimeRecalled struct {
		Time    *messages.GpuTime // nil: no sums are stored
		Ended   []actors.Ended
		Removed []*messages.NodeRecord
	}
)

// gpuTime holds the meter and its clock. The clock advances steadily from the time of day at which this leader took
// over. A corrected system clock would add or lose GPU time.
type gpuTime struct {
	meter *goodput.Meter
	began actors.Instant
	wall  int64
	told  bool // the Scheduler knows that the sums have changed
}

func newGPUTime(c actors.Clock) gpuTime {
	return gpuTime{meter: goodput.New(c.WallMs()), began: c.Now(), wall: c.WallMs()}
}

func (t *gpuTime) now(c actors.Clock) int64 { return t.wall + c.Now().Since(t.began).Milliseconds() }

// onGPUTimeRecalled continues from the sums of earlier leaders.
func (m *Mirror) onGPUTimeRecalled(r GPUTimeRecalled) {
	if r.Time == nil {
		return
	}
	t := &m.gpuTime
	rows := make([]goodput.Row, len(r.Time.Rows))
	for i, row := range r.Time.Rows {
		rows[i] = rowFrom(row)
	}
	t.meter.Recall(r.Time.SinceUnixMs, r.Time.UntilUnixMs, rows)
	for _, e := range r.Ended {
		m.loseSince(e.Job, e.Attempt)
	}
	for _, n := range r.Removed {
		total := n.GetAnnouncement().GetTotal().GetMilliGpu()
		t.meter.Removed(total, n.JoinedUnixMs, n.GetRemoved().GetAtUnixMs())
	}
}

// loseSince counts the work of an attempt as lost if the attempt ended after the last record.
func (m *Mirror) loseSince(job *messages.JobRecord, a *messages.AttemptRecord) {
	end := a.GetEnd()
	if !end.GetCause().LosesWork() {
		return
	}
	for _, p := range a.GetPlaces() {
		ended := end.GetAtUnixMs()
		if at := p.GetExit().GetAtUnixMs(); at > 0 {
			ended = min(ended, at)
		}
		m.gpuTime.meter.LostSince(&goodput.Past{
			Owner: job.GetOwner().GetName(), Queue: job.GetSpec().GetQueue(),
			Began: max(a.GetStartedUnixMs(), a.GetSaved().GetAtUnixMs()), Ended: ended,
			Milli: p.GetGrant().GetAmount().GetMilliGpu(), Cause: int32(end.GetCause()),
		})
	}
}

func (m *Mirror) onRunEnded(e RunEnded) {
	t := &m.gpuTime
	t.meter.Saved(t.now(m.p.Clock), e.Token, e.SavedUnixMs)
	t.meter.Ended(t.now(m.p.Clock), e.Token, int32(e.Cause), e.Cause.LosesWork())
}

// tellMoved notifies the Scheduler that the sums have changed, so that the Scheduler takes them soon.
func (m *Mirror) tellMoved(ctx actor.Context) {
	if t := &m.gpuTime; !t.told && t.meter.Moved() {
		t.told = true
		ctx.Send(actors.At(ctx.Self(), actors.SchedulerPath), GPUTimeMoved{})
	}
}

// onTakeGPUTime returns all GPU time counted by now.
func (m *Mirror) onTakeGPUTime() GPUTimeTaken {
	t := &m.gpuTime
	t.told = false
	t.meter.Moved()
	return GPUTimeTaken{Time: m.timeOf(func(*goodput.Row) bool { return true })}
}

// timeOf returns the counted GPU time of the requested rows.
func (m *Mirror) timeOf(asked func(*goodput.Row) bool) *messages.GpuTime {
	t := &m.gpuTime
	rows := t.meter.Rows(t.now(m.p.Clock))
	all := &messages.GpuTime{SinceUnixMs: t.meter.Since(), UntilUnixMs: t.meter.At()}
	for i := range rows {
		if asked(&rows[i]) {
			all.Rows = append(all.Rows, rowTo(&rows[i]))
		}
	}
	return all
}

// onGetEfficiency answers a reader's query for GPU time.
func (m *Mirror) onGetEfficiency(q *messages.GetEfficiency) *messages.GetEfficiencyReply {
	kind := goodput.Kind(max(q.Kind, messages.GpuTimeKind_GPU_TIME_KIND_CLUSTER) - 1)
	first := int64(0)
	if q.Days > 0 {
		first = goodput.DayOf(m.gpuTime.now(m.p.Clock)) + 1 - int64(q.Days)
	}
	r := &messages.GetEfficiencyReply{Outcome: messages.OK(), Time: m.timeOf(func(r *goodput.Row) bool {
		return r.Kind == kind && r.Day >= first
	})}
	of, capacity := m.gpuTime.meter.Now()
	r.CapacityMilliGpu = capacity
	for class, milli := range of {
		if milli != 0 {
			r.Now = append(r.Now, &messages.GpuNow{Class: messages.GpuClass(class + 1), MilliGpu: milli})
		}
	}
	return r
}

func rowFrom(row *messages.GpuTimeRow) goodput.Row {
	r := goodput.Row{Kind: goodput.Kind(row.Kind - 1), Day: row.Day, Name: row.Name}
	r.Capacity = row.CapacityMilliGpuMs
	for _, a := range row.Amounts {
		r.Of[a.Class-1] += a.MilliGpuMs
		if a.Class == messages.GpuClass_GPU_CLASS_LOST && a.Cause < goodput.Causes {
			r.Lost[a.Cause] += a.MilliGpuMs
		}
	}
	return r
}

func rowTo(r *goodput.Row) *messages.GpuTimeRow {
	row := &messages.GpuTimeRow{
		Kind: messages.GpuTimeKind(r.Kind + 1), Day: r.Day, Name: r.Name, CapacityMilliGpuMs: r.Capacity,
	}
	for class, n := range r.Of {
		if n != 0 && goodput.Class(class) != goodput.Lost {
			row.Amounts = append(row.Amounts, &messages.GpuAmount{Class: messages.GpuClass(class + 1), MilliGpuMs: n})
		}
	}
	for cause, n := range r.Lost {
		if n != 0 {
			row.Amounts = append(row.Amounts, &messages.GpuAmount{
				Class: messages.GpuClass_GPU_CLASS_LOST, Cause: messages.Cause(cause), MilliGpuMs: n,
			})
		}
	}
	return row
}

// meterNode updates the meter with the present state of a node. If this leader has not heard the node yet, the node is
// counted after its first report or after it is declared dead. The count then covers all time after the last record.
func (m *Mirror) meterNode(id string) {
	t, s, ok := &m.gpuTime, shownNode{}, false
	if s, ok = m.nodes.get(id); !ok || s.GetRecord().GetAnnouncement() == nil || s.GetPhase() == messages.NodeUnknown ||
		s.GetRecord().GetRemoved() != nil {
		return
	}
	if !t.meter.Set(t.now(m.p.Clock), topology.NodeID(id), m.unitOf(&s)) {
		m.p.Host.Count("mirror.gpus_unequal", 1)
	}
}

// unitOf returns the GPUs of a node and their state, from the node's ledger.
func (m *Mirror) unitOf(s *shownNode) goodput.Unit {
	a, l := s.GetRecord().GetAnnouncement(), s.GetLedger()
	u := goodput.Unit{Joined: s.GetRecord().GetJoinedUnixMs(), Capacity: a.GetTotal().GetMilliGpu()}
	if len(a.GetGpus()) > 0 {
		u.Type = a.Gpus[0].GetType()
	}
	if s.GetPhase() != messages.NodeUp || s.untrue {
		u.Shares = []goodput.Share{{Class: goodput.Broken, Milli: u.Capacity}}
		return u
	}
	if n := actors.OutOfService(a, l); n > 0 {
		u.Shares = append(u.Shares, goodput.Share{Class: goodput.Broken, Milli: int64(n) * topology.WholeGPU})
	}
	in := inUse(l)
	for _, sl := range l.GetSlices() {
		if sl.GetVacated() || sl.GetState() == messages.SliceState_SLICE_STATE_OVER {
			continue // counted as free below
		}
		share := m.shareOf(sl)
		if share.Milli = in.take(sl); share.Milli > 0 {
			u.Shares = append(u.Shares, share)
		}
	}
	m.divideFree(&u, s, l.GetFree().GetMilliGpu())
	return u
}

// divideFree divides the free GPUs of a node into classes.
func (m *Mirror) divideFree(u *goodput.Unit, s *shownNode, free int64) {
	class, n := s.free, free
	if class == goodput.Unwanted {
		class, n = goodput.Kept, min(free, m.keptOn(s.GetRecord().GetId()))
	}
	if n != 0 {
		u.Shares = append(u.Shares, goodput.Share{Class: class, Milli: n})
	}
	u.Idle = free - n
}

// used holds, for each device in service, the amount that the node does not report as free.
type used map[string]int64

func inUse(l *messages.LedgerReport) used {
	in := used{}
	for _, sl := range l.GetSlices() {
		for _, g := range sl.GetGrants() {
			for _, share := range g.GetGpus() {
				in[share.GetGpuId()] = topology.WholeGPU
			}
		}
	}
	for _, g := range l.GetFreeGpus() {
		in[g.GetGpuId()] -= g.GetMilli()
	}
	for _, id := range l.GetWithdrawnGpus() {
		delete(in, id)
	}
	return in
}

// take subtracts an allocation from the used amounts, and returns its GPUs. If a failing disk delays the write of an
// end, an older agent still reports an allocation that is gone. GPUs that are free in the node's ledger therefore do
// not count as held.
func (in used) take(sl *messages.SliceReport) (milli int64) {
	for _, g := range sl.GetGrants() {
		for _, share := range g.GetGpus() {
			n := max(min(share.GetMilli(), in[share.GetGpuId()]), 0)
			in[share.GetGpuId()] -= n
			milli += n
		}
	}
	return milli
}

// shareOf returns the use that an allocation makes of its GPUs. The job's record decides whether the gang has started
// and ended, because the record is on disk and is the same for all nodes.
func (m *Mirror) shareOf(sl *messages.SliceReport) goodput.Share {
	token := messages.FromToken(sl.GetToken())
	job, _ := m.jobs.get(sl.GetJob())
	share := goodput.Share{Class: goodput.Starting, Token: token}
	if r := job.GetRecord(); r != nil {
		share.Owner, share.Queue = r.GetOwner().GetName(), r.GetSpec().GetQueue()
	}
	a := job.GetAttempt()
	known := a != nil && messages.FromToken(a.GetToken()) == token
	switch {
	case sl.GetState() == messages.SliceState_SLICE_STATE_STOPPING, known && a.GetEnd() != nil:
		share.Class = goodput.Stopping
	case sl.GetState() != messages.SliceState_SLICE_STATE_STARTED:
	case known && a.GetStartedUnixMs() > 0:
		share.Class, share.Began, share.Saved = goodput.Productive, a.GetStartedUnixMs(), a.GetSaved().GetAtUnixMs()
	case known: // its start is not on disk yet
	case job.JobStatus == nil: // its record is unreadable, and the leader leaves the allocation alone
		share.Class, share.Token = goodput.Productive, topology.Token{}
	default:
		share.Class = goodput.Stopping // its job has continued without this attempt
	}
	return share
}

// meterJob counts the nodes of a job's attempt again if the attempt has started, ended or been replaced. It also counts
// acknowledged checkpoints.
func (m *Mirror) meterJob(before, now *messages.JobStatus) {
	was, is := before.GetAttempt(), now.GetAttempt()
	if at := is.GetSaved().GetAtUnixMs(); at > 0 {
		m.gpuTime.meter.Saved(m.gpuTime.now(m.p.Clock), messages.FromToken(is.GetToken()), at)
	}
	if is == nil || was != nil && was.GetStartedUnixMs() == is.GetStartedUnixMs() &&
		(was.GetEnd() == nil) == (is.GetEnd() == nil) &&
		messages.FromToken(was.GetToken()) == messages.FromToken(is.GetToken()) {
		return
	}
	last := ""
	for _, p := range is.GetPlaces() {
		if p.GetNode() != last {
			last = p.GetNode()
			m.meterNode(last)
		}
	}
}

// onRoomsShown applies the changes, and counts the nodes again whose reservations changed.
func (m *Mirror) onRoomsShown(r RoomsShown) {
	var nodes []topology.NodeID
	for i := range r.Kept {
		for _, slots := range [][]topology.Slot{m.picture.tree.Kept(r.Kept[i].ID), r.Kept[i].Slots} {
			for j := range slots {
				nodes = append(nodes, slots[j].Node)
			}
		}
	}
	m.picture.follow(r)
	slices.Sort(nodes)
	for _, id := range slices.Compact(nodes) {
		m.meterNode(string(id))
	}
}

// GPUTime returns the GPU time counted by now. Only checks call it, never another actor.
func (m *Mirror) GPUTime() []goodput.Row { return m.gpuTime.meter.Rows(m.gpuTime.now(m.p.Clock)) }

// GPUsNow returns the number of GPUs in each class, and the capacity. Only checks call it, never another actor.
func (m *Mirror) GPUsNow() (of [goodput.Classes]int64, capacity int64) { return m.gpuTime.meter.Now() }
