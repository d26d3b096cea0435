package mirror

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
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

func (m *Mirror) onCountAll() *Census {
	c := &Census{Phases: make([]int, len(messages.Phases)), Machines: make([]int, len(MachinePhases))}
	m.jobs.ascend("", func(_ string, s shownJob) bool {
		m.countJob(c, &s)
		return true
	})
	m.countMachines(c)
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
