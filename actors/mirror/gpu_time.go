package mirror

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns where the GPU time of the cluster goes: the Mirror is told of every machine, attempt and promise
// anyway, and counts beside the Scheduler, which is never slowed by it. What is counted gets to disk with what the
// Scheduler has learned, so that a next leader goes on with it.

// From the Scheduler to the Mirror, and back.
type (
	// RunEnded: the end of an attempt is on disk. Scheduler → Mirror, before the next TakeGPUTime: so each record knows
	// of exactly those ends that the Scheduler writes down with it.
	RunEnded struct {
		Token topology.Token
		Cause messages.Cause
	}
	// WantsShown: which GPUs waiting jobs could use. Scheduler → Mirror, at most once a second.
	WantsShown struct{ goodput.Wants }
	// TakeGPUTime asks for a GPUTimeTaken. Scheduler → Mirror.
	TakeGPUTime struct{}
	// GPUTimeTaken is all that was counted. Mirror → Scheduler.
	GPUTimeTaken struct{ Time *messages.GpuTime }
	// GPUTimeMoved: something has changed since it was taken last. Mirror → Scheduler, once for each taking.
	GPUTimeMoved struct{}
	// GPUTimeRecalled is what earlier leaders counted, the attempts that ended since, and the machines that were removed.
	// Scheduler → Mirror, before any machine is shown.
	GPUTimeRecalled struct {
		Time    *messages.GpuTime // nil: nothing is known
		Ended   []actors.Ended
		Removed []*messages.NodeRecord
	}
)

// gpuTime is the meter, and its clock: it goes on evenly from the time of day at which this leader began. A time of day
// that is corrected under way would count what never was, or not count what was.
type gpuTime struct {
	meter *goodput.Meter
	began actors.Instant
	wall  int64
	told  bool // that something has changed
}

func newGPUTime(c actors.Clock) gpuTime {
	return gpuTime{meter: goodput.New(c.WallMs()), began: c.Now(), wall: c.WallMs()}
}

func (t *gpuTime) now(c actors.Clock) int64 { return t.wall + c.Now().Since(t.began).Milliseconds() }

// onGPUTimeRecalled goes on from what earlier leaders counted.
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

// loseSince moves what an attempt did that ended after the last record.
func (m *Mirror) loseSince(job *messages.JobRecord, a *messages.AttemptRecord) {
	end := a.GetEnd()
	if !losesWork(end.GetCause()) {
		return
	}
	for _, p := range a.GetPlaces() {
		ended := end.GetAtUnixMs()
		if at := p.GetExit().GetAtUnixMs(); at > 0 {
			ended = min(ended, at)
		}
		m.gpuTime.meter.LostSince(&goodput.Past{
			Owner: job.GetOwner().GetName(), Queue: job.GetSpec().GetQueue(), Began: a.GetStartedUnixMs(), Ended: ended,
			Milli: p.GetGrant().GetAmount().GetMilliGpu(), Cause: int32(end.GetCause()),
		})
	}
}

// losesWork reports whether what an attempt did is lost when it ends so. It is not where it has done all that it was to
// do, or where its user, or the limit that its user set, said that this was enough.
func losesWork(c messages.Cause) bool {
	switch c {
	case messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_TIME_LIMIT:
		return false
	}
	return true
}

func (m *Mirror) onRunEnded(e RunEnded) {
	m.gpuTime.meter.Ended(m.gpuTime.now(m.p.Clock), e.Token, int32(e.Cause), losesWork(e.Cause))
}

// tellMoved has the Scheduler take what was counted before long, where something has changed.
func (m *Mirror) tellMoved(ctx actor.Context) {
	if t := &m.gpuTime; !t.told && t.meter.Moved() {
		t.told = true
		ctx.Send(actors.At(ctx.Self(), actors.SchedulerPath), GPUTimeMoved{})
	}
}

// onTakeGPUTime answers with all that was counted up to now.
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

// onGetEfficiency answers a reader.
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

// meterNode counts a machine as it is shown now. One that this leader has not heard yet is counted once it has been, or
// is dead: for all the time since the last record.
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

// unitOf returns the GPUs of a node and their state, by the node's ledger.
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
			continue // it is among what is free
		}
		share := m.shareOf(sl)
		if share.Milli = in.take(sl); share.Milli > 0 {
			u.Shares = append(u.Shares, share)
		}
	}
	m.divideFree(&u, s, l.GetFree().GetMilliGpu())
	return u
}

// divideFree says what becomes of what is free.
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

// used is how much of each device a machine does not say to be free, as far as the device is in service.
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

// take subtracts an allocation from what is in use, and returns its GPUs. If a failing disk keeps an end from being
// written, an agent of an earlier version does not report that the allocation has left. GPUs that are free in its
// ledger do not count as held.
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

// shareOf says what a slice does. Whether its gang has begun, and whether it has ended, its job's record says: that is
// on disk, and the same for all its machines.
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
		share.Class, share.Began = goodput.Productive, a.GetStartedUnixMs()
	case known: // its barrier is not on disk yet
	case job.JobStatus == nil: // its record cannot be read, and it is left alone
		share.Class, share.Token = goodput.Productive, topology.Token{}
	default:
		share.Class = goodput.Stopping // its job has gone on without it
	}
	return share
}

// meterJob counts the machines of a job's attempt again, where that has come further.
func (m *Mirror) meterJob(before, now *messages.JobStatus) {
	was, is := before.GetAttempt(), now.GetAttempt()
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

// onRoomsShown applies what has changed, and counts the machines again on which something was kept, or is now.
func (m *Mirror) onRoomsShown(r RoomsShown) {
	var nodes []topology.NodeID
	for i := range r.Kept {
		for _, slots := range [][]topology.Slot{m.picture.fabric.Kept(r.Kept[i].ID), r.Kept[i].Slots} {
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

// GPUTime returns the GPU time counted up to now, and GPUsNow the class of each GPU. They are for checks, never for
// another actor.
func (m *Mirror) GPUTime() []goodput.Row { return m.gpuTime.meter.Rows(m.gpuTime.now(m.p.Clock)) }

// GPUsNow is how many GPUs are in each class, and how many there are.
func (m *Mirror) GPUsNow() (of [goodput.Classes]int64, capacity int64) { return m.gpuTime.meter.Now() }
