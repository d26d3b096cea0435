package mirror

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the census: the counts of all jobs, nodes and planned starts, for operators. A count is one pass over
// everything that the Mirror shows. Callers must therefore ask rarely.

// CountAll asks the Mirror for a *Census. Any reader → Mirror.
type CountAll struct{}

// Census holds all counts. A Census does not change after the Mirror has sent it. GPU amounts are in thousandths of a
// GPU.
type Census struct {
	Phases    []int                                      // number of jobs in each of messages.Phases
	Waiting   [messages.WaitCodes][len(WaitAges) + 1]int // waiting jobs, by reason code and age
	Oldest    time.Duration                              // time since the submission of the longest-waiting job
	Stocks    []Stock                                    // by GPU type, sorted by name
	Levels    []LevelRoom                                // coarse to fine; the last level is the node
	Machines  []int                                      // number of nodes in each phase of MachinePhases
	Outages   [outages]int                               // number of nodes that take no new work, by cause
	Promises  [2]Promises                                // planned starts, then start guarantees
	Owners    []Share
	Queues    []Share
	Described []*messages.QueueSpec // queues as configured
	Activity  [activities]Activity  // of running jobs
	Slow      int                   // number of running jobs with slow ranks
	Stalled   int                   // number of running jobs that hang
	Suspected int                   // number of nodes that are suspected to cause failures
	InClass   [goodput.Classes]int64
	Spent     goodput.Amounts // use of the cluster's GPU time over the retained days
	// SpentSince and SpentUntil are the bounds of the time that Spent covers, in Unix milliseconds.
	SpentSince, SpentUntil int64
}

// MachinePhases lists the phases of nodes in the order in which Census.Machines counts them.
var MachinePhases = []string{messages.NodeUp, messages.NodeDead, messages.NodeUnknown}

// WaitAges lists the upper bounds of the age classes of waiting jobs. One more class counts the older jobs.
var WaitAges = [...]time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// Promises holds the number of jobs with reserved nodes, and the GPUs that they request.
type Promises struct {
	Jobs int
	GPUs int64
}

// activities is the number of kinds of activity.
const activities = 3

// ActivityWords names the kinds of activity of running jobs. Inactive jobs are those of `get jobs --idle`. The activity
// of a job is unknown if not all of its GPUs are measured.
var ActivityWords = [activities]string{"working", "inactive", "unknown"}

// Activity holds the number of running jobs with one kind of activity, and their GPUs. Busy is the sum over measured
// GPUs of the share of the last minute in which the GPU was busy, in percent.
type Activity struct {
	Jobs     int
	GPUs     int64
	Measured int64
	Busy     int64
}

// countActivity counts what a running job does.
func (c *Census) countActivity(s *messages.JobStatus) {
	if s.GetPhase() != messages.PhaseRunning {
		return
	}
	held := int64(0)
	for _, p := range s.GetAttempt().GetPlaces() {
		held += p.GetGrant().GetAmount().GetMilliGpu()
	}
	kind := &c.Activity[2]
	switch use := s.GetUse(); {
	case messages.Idle(s, messages.IdleAfterMs):
		kind = &c.Activity[1]
	case use.GetTasks() > 0 && int64(use.GetGpus())*topology.WholeGPU >= held:
		kind = &c.Activity[0]
	}
	kind.Jobs, kind.GPUs = kind.Jobs+1, kind.GPUs+held
	kind.Measured, kind.Busy = kind.Measured+int64(s.GetUse().GetGpus()), kind.Busy+s.GetUse().GetGpuPercent()
	if s.GetProgress().GetSlowRanks() > 0 {
		c.Slow++
	}
	if s.GetStall() != nil {
		c.Stalled++
	}
}

func (m *Mirror) onCountAll() *Census {
	c := &Census{Phases: make([]int, len(messages.Phases)), Machines: make([]int, len(MachinePhases))}
	m.jobs.ascend("", func(_ string, s shownJob) bool {
		m.countJob(c, &s)
		if s.GetPhase() == messages.PhaseRunning {
			c.countActivity(m.progressed(s))
		}
		return true
	})
	m.countMachines(c)
	m.nodes.ascend("", func(_ string, n shownNode) bool {
		if n.GetSuspicion().GetSuspected() {
			c.Suspected++
		}
		return true
	})
	c.Levels = m.picture.levelRooms()
	for i := range m.starts.order {
		p := &m.starts.order[i]
		if m.starts.promises[p.Job] == nil {
			continue // it no longer waits
		}
		sum := &c.Promises[0]
		if p.Firm {
			sum = &c.Promises[1]
		}
		sum.Jobs++
		for _, slot := range p.Where.Slots {
			sum.GPUs += slot.Amount.MilliGPU
		}
	}
	now := m.p.Clock.Now()
	c.Owners, c.Queues = m.usage.owners.all(now), m.queuesNow(now)
	c.InClass, _ = m.GPUsNow()
	for _, r := range m.GPUTime() {
		if r.Kind == goodput.Cluster {
			c.Spent.Plus(&r.Amounts)
		}
	}
	c.SpentSince, c.SpentUntil = m.gpuTime.meter.Since(), m.gpuTime.meter.At()
	c.Described = m.queues.GetQueues().GetQueues()
	return c
}

func (m *Mirror) countJob(c *Census, s *shownJob) {
	if at := slices.Index(messages.Phases, s.GetPhase()); at >= 0 {
		c.Phases[at]++
	}
	if !messages.Waits(s.GetPhase()) {
		return
	}
	age := actors.Millis(m.p.Clock.WallMs() - s.GetRecord().GetSubmittedUnixMs())
	c.Oldest = max(c.Oldest, age)
	at := 0
	for at < len(WaitAges) && age > WaitAges[at] {
		at++
	}
	why, _ := m.why(s)
	if why.Code == messages.WaitNone {
		why.Code = messages.WaitEvaluating
	}
	c.Waiting[why.Code][at]++
}
