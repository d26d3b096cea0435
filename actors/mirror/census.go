package mirror

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
)

// This file owns the census: the figures of all jobs, machines and promises at once, for operators. It decides nothing.
// It is counted when somebody asks, in one walk over what is shown, so whoever asks must not ask often.

// CountAll asks the Mirror for a *Census. Somebody who counts → Mirror.
type CountAll struct{}

// Census is the whole count. It is never changed after it was sent. Amounts of GPUs are in thousandths.
type Census struct {
	Phases    []int                                      // how many jobs are in each of messages.Phases
	Waiting   [messages.WaitCodes][len(WaitAges) + 1]int // by the code of the reason
	Oldest    time.Duration                              // how long the job has been here that waits for longest
	Stocks    []Stock                                    // by GPU type, in the order of names
	Levels    []LevelRoom                                // coarse to fine, the machine last
	Machines  []int                                      // how many are up, dead, unknown, as MachinePhases
	Outages   [outages]int                               // nodes that take no new work, by cause
	Promises  [2]Promises                                // those that move, and the firm ones
	Owners    []Share
	Queues    []Share
	Described []*messages.QueueSpec // the queues as their owner describes them
	InClass   [goodput.Classes]int64
	Spent     goodput.Amounts // where the cluster's GPU time went, over the days that are kept
	// SpentSince is when the first of it began, and SpentUntil up to when all of it is counted, in Unix milliseconds.
	SpentSince, SpentUntil int64
}

// MachinePhases are the phases of machines, as they are counted.
var MachinePhases = []string{messages.NodeUp, messages.NodeDead, messages.NodeUnknown}

// WaitAges are up to how old waiting jobs are, as they are counted; the last count is of those that are older.
var WaitAges = [...]time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// Promises are how many jobs were promised a start, and what they ask for.
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
			continue // it waits no more
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
