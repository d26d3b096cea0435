package scheduler

import (
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the benchmark of explanations while a Scheduler starts gangs.

// realClock is a real clock.
type realClock struct {
	leadertest.Host
	began time.Time
}

func (c realClock) Now() actors.Instant { return actors.Instant(time.Hour + time.Since(c.began)) }

// crowd is a leader with a planner that looks ahead, nodes that are full, and a long queue. Its Scheduler and its
// Mirror run in parallel, as with mailboxes.
type crowd struct {
	*pair
	r      *rand.Rand
	toMine chan any // messages to the Mirror: from its Scheduler, and questions
	held   []holding
	made   int
	passes []pass
}

// pass is the duration of a pass or an explanation, in wall clock time and CPU time. The wall clock time includes other
// work of the machine.
type pass struct{ took, used time.Duration }

// holding is a running gang that uses the nodes of a rack.
type holding struct {
	job   topology.JobID
	token topology.Token
	nodes []topology.NodeID
	each  topology.Resources
}

// question is an explanation, and the time at which it was due.
type question struct {
	job string
	due time.Time
}

func newCrowd(machines, waiting int) *crowd {
	c := &crowd{r: rand.New(rand.NewSource(1)), toMine: make(chan any, 1<<16)}
	p := leadertest.Ports()
	p.Levels, p.Clock = []string{"block", "rack"}, realClock{began: time.Now()}
	p.Planner, p.Settings, p.Aside = nil, policy.DefaultSettings(), host.NewAside()
	s := New(p, Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	s.states.Become("loaded", schedulerRecovering)
	s.states.Become("waited", schedulerLeading)
	s.view.Tree().Lead()
	c.pair = &pair{Scheduler: s, mirror: mirror.New(&p.Ports, 1, p.Levels).(*mirror.Mirror)}
	for rack := range machines / 8 {
		c.build(rack)
	}
	for range waiting {
		c.come()
	}
	c.say(PlanNow{})
	c.say(showAgain{})
	return c
}

// build adds the nodes of a rack, which one gang uses.
func (c *crowd) build(rack int) {
	total := topology.Resources{MilliCPU: 64_000, MemoryBytes: 512 << 30, MilliGPU: 8000}
	now := int64(c.p.Clock.Now())
	h := holding{job: topology.JobID(fmt.Sprintf("r%05d", rack)), token: topology.Token{Epoch: 1, Counter: 1 << 40}}
	h.token.Counter += uint64(rack)
	h.each = total
	likely := now + int64(10*time.Minute) + c.r.Int63n(int64(24*time.Hour))
	stay := &belief.Stay{Likely: likely, Hard: 2 * likely}
	for i := range 8 {
		id := topology.NodeID(fmt.Sprintf("n%05d-%d", rack, i))
		place := []string{fmt.Sprint("b", rack/40), fmt.Sprint("r", rack)}
		c.view.Tree().Join(topology.Machine{ID: id, Place: place, Total: total}, topology.Capacity{})
		m := c.Scheduler.machine(id)
		m.record = &messages.NodeRecord{Id: string(id)}
		m.room.Claim(&belief.Lodger{Token: h.token, Job: h.job, Stay: stay}, total)
		h.nodes = append(h.nodes, id)
	}
	c.held = append(c.held, h)
}

// come adds a waiting job of one of a hundred shapes. Half of them are gangs.
func (c *crowd) come() string {
	c.made++
	shape := c.made % 100
	spec := &messages.JobSpec{
		Name: fmt.Sprint("train-", shape), Image: "host", Command: []string{"true"},
		Each: &messages.Resources{MilliCpu: 8000 + int64(shape)*10, MemoryBytes: 64 << 30, MilliGpu: 8000},
		Gang: &messages.GangSpec{ReplicasMin: 8, ReplicasMax: 8}, TimeLimitMs: int64(600+shape*60) * 1000,
	}
	if shape%2 == 0 {
		spec.Gang = &messages.GangSpec{ReplicasMin: int32(16 + shape), ReplicasMax: int32(16 + shape)}
	}
	id := fmt.Sprintf("w%06d", c.made)
	rec := &messages.JobRecord{Id: id, Arrival: uint64(c.made), Spec: spec, Uid: uint32(c.made)}
	rec.Owner = &messages.Principal{Name: fmt.Sprint("u", c.made%20)}
	c.jobs[topology.JobID(id)] = &livingJob{
		jobRecord: jobRecord{id: topology.JobID(id), rec: rec}, queueEntry: queueEntry{noted: true},
		jobActor: jobActor{pid: actor.NewPID("here", id)},
	}
	c.toMine <- mirror.JobShown{Status: &messages.JobStatus{Record: rec, Phase: messages.PhaseQueued}}
	c.say(protocol.Waits{Record: rec})
	return id
}

// say sends the Scheduler a message, and passes its messages to the Mirror.
func (c *crowd) say(message any) {
	var said []leadertest.Letter
	c.Receive(&leadertest.Context{Hears: message, Said: &said})
	for _, l := range said {
		if told, is := l.Message.(protocol.Admit); is {
			h := holding{job: topology.JobID(l.To), token: told.Token}
			for _, t := range told.Targets {
				h.nodes = append(h.nodes, t.Node)
			}
			each := told.Targets[0].Members[0].Amount
			h.each = topology.Resources{
				MilliCPU: each.MilliCpu, MemoryBytes: each.MemoryBytes, MilliGPU: each.MilliGpu,
			}
			c.held = append(c.held, h)
		}
		if l.To == "mirror" {
			c.toMine <- l.Message
		}
	}
}

// step ends one gang, adds one job, and runs the pass that follows.
func (c *crowd) step() {
	at := c.r.Intn(len(c.held))
	h := c.held[at]
	c.held[at] = c.held[len(c.held)-1]
	c.held = c.held[:len(c.held)-1]
	c.say(protocol.Settled{Job: h.job})
	for _, n := range h.nodes {
		c.Scheduler.machines[n].room.Evict(h.token)
		c.view.Tree().Give(topology.Placement{Slots: []topology.Slot{{Node: n, Amount: h.each}}})
		c.endsChanged(c.Scheduler.machines[n])
	}
	c.come()
	began, used := time.Now(), threadTime()
	c.say(PlanNow{})
	c.passes = append(c.passes, pass{time.Since(began), threadTime() - used})
	c.say(showAgain{})
}

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// reads runs the Mirror until its mailbox is closed. It returns the duration of each explanation from its due time.
func (c *crowd) reads(b *testing.B) (took []time.Duration) {
	for m := range c.toMine {
		q, asks := m.(question)
		if !asks {
			c.mirror.Receive(&leadertest.Context{Hears: m, Said: &[]leadertest.Letter{}})
			continue
		}
		var said []leadertest.Letter
		c.mirror.Receive(&leadertest.Context{Hears: &messages.ExplainJob{Job: q.job}, Said: &said})
		if r, is := said[0].Message.(*messages.ExplainJobReply); !is || r.Text == "" {
			b.Errorf("%s is explained by %v", q.job, said)
		}
		took = append(took, time.Since(q.due))
	}
	return took
}

// turn runs 100 gangs a second for a while, with 50 explanations a second or with none.
func (c *crowd) turn(lasts time.Duration, explains bool) []pass {
	c.passes = nil
	over := make(chan struct{})
	var asks sync.WaitGroup
	if explains {
		r, jobs := rand.New(rand.NewSource(int64(c.made))), c.made
		asks.Go(func() { c.ask(r, jobs, over) })
	}
	end, tick := time.Now().Add(lasts), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(end) {
		<-tick.C
		c.step()
	}
	close(over)
	asks.Wait()
	return c.passes
}

// ask sends the Mirror 50 questions a second about jobs, at times independent of the passes, as users do. In
// production, a connection's thread wakes the Mirror, not the Scheduler's thread.
func (c *crowd) ask(r *rand.Rand, jobs int, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(r.Int63n(int64(40 * time.Millisecond)))):
			c.toMine <- question{fmt.Sprintf("w%06d", 1+r.Intn(jobs)), time.Now()}
		}
	}
}

// percentile99 returns the 99th percentile, in milliseconds.
func percentile99[T any](all []T, of func(T) time.Duration) float64 {
	times := []time.Duration{0}
	for _, one := range all {
		times = append(times, of(one))
	}
	slices.Sort(times)
	return float64(times[len(times)*99/100].Microseconds()) / 1000
}

// BenchmarkExplainBeside measures 50 explanations a second and 100 gangs a second on 10,000 nodes with a planner that
// looks ahead. It reports the duration of an explanation from its due time, and the duration of passes with and without
// explanations, interleaved.
func BenchmarkExplainBeside(b *testing.B) {
	machines, waiting, lasts := 10_000, 10_000, 10*time.Second
	if testing.Short() {
		machines, waiting, lasts = 400, 200, 100*time.Millisecond
	}
	runtime.LockOSThread() // its CPU time is measured
	defer runtime.UnlockOSThread()
	c := newCrowd(machines, waiting)
	answers := make(chan []time.Duration)
	go func() { answers <- c.reads(b) }()
	c.turn(lasts, true) // warm-up: the first explanations and indexes
	var with, without []pass
	for b.Loop() {
		without = append(without, c.turn(lasts, false)...)
		with = append(with, c.turn(lasts, true)...)
	}
	close(c.toMine)
	took, used := func(p pass) time.Duration { return p.took }, func(p pass) time.Duration { return p.used }
	itself := func(d time.Duration) time.Duration { return d }
	b.ReportMetric(percentile99(<-answers, itself), "explain-p99-ms")
	b.ReportMetric(percentile99(with, took), "pass-p99-ms-beside")
	b.ReportMetric(percentile99(without, took), "pass-p99-ms-alone")
	b.ReportMetric(percentile99(with, used), "pass-cpu-p99-ms-beside")
	b.ReportMetric(percentile99(without, used), "pass-cpu-p99-ms-alone")
}
