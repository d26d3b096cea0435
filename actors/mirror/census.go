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
	Phases    []int // how many jobs are in each of messages.Phases
	Waiting   [waitKinds][len(WaitAges) + 1]int
	Oldest    time.Duration // how long the job has been here that waits for longest
	Stocks    []Stock       // by GPU type, in the order of names
	Levels    []LevelRoom   // coarse to fine, the machine last
	Machines  []int         // how many are up, dead, unknown, as MachinePhases
	Outages   [outages]int  // and out of service, by what
	Promises  [2]Promises   // those that move, and the firm ones
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

// WaitKind is a kind of reason for which jobs wait.
type WaitKind uint8

// The kinds of reasons.
const (
	WaitUnknown  WaitKind = iota // nobody has looked yet
	WaitRoom                     // not enough is free, or not close enough together
	WaitNearer                   // it waits for a place closer together
	WaitTurn                     // there is room, and others go first
	WaitMatch                    // no machine is of its kind
	WaitNever                    // it would not fit were all machines idle
	WaitHeld                     // somebody holds it
	WaitBegin                    // it is to begin later
	WaitEvidence                 // machines owe evidence of its last attempt
	WaitBackoff                  // it is tried again later, after a failure
	WaitHalt                     // nothing is planned at all now
	WaitLimit                    // its queue, or its owner there, has no more
	waitKinds
)

// WaitWords name the kinds.
var WaitWords = [...]string{
	WaitUnknown: "not_looked_at", WaitRoom: "no_room", WaitNearer: "nearer_place", WaitTurn: "turn", WaitMatch: "no_match",
	WaitNever: "too_large", WaitHeld: messages.PhaseHeld, WaitBegin: "begins_later", WaitEvidence: "evidence",
	WaitBackoff: "backoff",
	WaitHalt:    "planning_halted", WaitLimit: "limit",
}

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
	c.Waiting[m.waitKind(s)][at]++
}

// waitKind is the kind of the reason that present says of a waiting job.
func (m *Mirror) waitKind(s *shownJob) WaitKind {
	r := s.GetRecord()
	switch group := m.waiting.groups[s.group]; {
	case m.starts.over(s) != "":
		return WaitLimit
	case group != nil:
		return group.kind
	case r.GetHold() != nil:
		return WaitHeld
	case m.beginsLater(s.JobStatus):
		return WaitBegin
	case len(s.GetDebts()) > 0:
		return WaitEvidence
	case r.GetNotBeforeUnixMs() > m.p.Clock.WallMs():
		return WaitBackoff
	case m.waiting.idle != "":
		return WaitHalt
	}
	return WaitUnknown
}
