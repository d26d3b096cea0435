package sim

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file tests requests to save a checkpoint in rounds. In each round, one gang on two nodes is stopped for one
// reason, in one of many moments of a takeover or of a lost node. The test uses its own record of what the tasks
// acknowledged, and not that of S42.

var saveRounds = flag.Int("save-rounds", 240, "how many gangs TestSavedRounds stops")

// saveRound is one round, drawn from its number.
type saveRound struct {
	n       int
	why     messages.Cause
	acks    string
	rank0   bool
	grace   time.Duration
	letter  int  // the leader crashes when this letter after the request is sent; 0: never
	loses   bool // a node loses its power at that letter instead
	letters int
	done    bool
}

var stopReasons = []messages.Cause{
	messages.Cause_CAUSE_PREEMPTED, messages.Cause_CAUSE_DRAINED, messages.Cause_CAUSE_TIME_LIMIT,
	messages.Cause_CAUSE_PREEMPTED, messages.Cause_CAUSE_REQUEUED,
}

// drawSaveRound draws a round. Two of five rounds have no fault, two a takeover, and one a lost node.
func drawSaveRound(n int) *saveRound {
	acks := []string{acksFile, acksNever, acksExit, acksFile}
	r := &saveRound{n: n, why: stopReasons[n%len(stopReasons)], acks: acks[n/5%len(acks)]}
	r.rank0 = n/20%3 == 0 && r.acks == acksFile
	r.grace = time.Duration(10+n*7%50) * time.Second
	if kind := n / 7 % 5; kind > 1 {
		r.letter, r.loses = 1+n/35%24, kind == 4
	}
	return r
}

// saveWitness records what the tasks got and acknowledged.
type saveWitness struct {
	rule
	deadline map[uint64]instant
	acks     map[uint64]map[int32]acknowledged
	last     uint64
	stops    map[string]instant      // the first Stop to each node
	until    instant                 // a node lost its power soon after; later acknowledgements may be lost with it
	ended    instant                 // when the end was on disk
	token    topology.Token          // of the attempt
	record   *messages.AttemptRecord // as last written with its end
}

func (c *saveWitness) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskTold:
		m := e.Message.(*messages.WarnTask)
		if m.Request == 0 || c.deadline[m.Request] != 0 {
			return
		}
		c.deadline[m.Request] = w.engine.now.plus(time.Duration(m.LeftMs) * time.Millisecond)
		c.acks[m.Request], c.last = map[int32]acknowledged{}, max(c.last, m.Request)
	case TaskSaved:
		if all := c.acks[e.Task.saved.request]; all != nil {
			all[int32(e.Task.key.Rank)] = e.Task.saved
		}
	case Stored:
		for _, a := range e.Stored.attempts {
			if messages.FromToken(a.Token) == c.token && a.End != nil {
				if c.record = a; c.ended == 0 {
					c.ended = w.engine.now
				}
			}
		}
	}
}

// kept returns the highest step that all required ranks acknowledged in time, some time before the end.
func (c *saveWitness) kept(required int) (step int64) {
	for request, acks := range c.acks { //order: a maximum
		in, last := 0, instant(0)
		for rank, a := range acks { //order: counted
			if int(rank) < required && a.at < min(c.deadline[request], c.until) {
				in, last = in+1, max(last, a.at)
			}
		}
		if in == required && c.ended.since(last) > 6*time.Second {
			for _, a := range acks { //order: all steps of a request are equal
				step = max(step, a.step)
			}
		}
	}
	return step
}

// saveTally sums the rounds.
type saveTally struct {
	stopped             map[messages.Cause]int
	takeovers, lost     int
	saved, late, missed int
	unnamed             int           // saved without a step, after a takeover
	early, after        time.Duration // greatest distance of a late end from its deadline
}

// TestSavedRounds stops gangs that save on request: by preemption, drain, time limit and requeue, with takeovers at
// each step of the request and with lost nodes. No acknowledged work is lost, each gang stops as a whole, and a gang
// whose rank is late stops at the deadline.
func TestSavedRounds(t *testing.T) {
	sum := saveTally{stopped: map[messages.Cause]int{}}
	for n := range *saveRounds {
		playSaveRound(t, drawSaveRound(n), &sum)
		if t.Failed() {
			t.Fatalf("round %d: %+v", n, *drawSaveRound(n))
		}
	}
	t.Logf("%d gangs stopped %v, %d takeovers, %d lost nodes", *saveRounds, sum.stopped, sum.takeovers, sum.lost)
	t.Logf("%d saved (%d without a step), %d late, %d missed; late ends %v before to %v after their deadlines",
		sum.saved, sum.unnamed, sum.late, sum.missed, sum.early, sum.after)
	if *saveRounds >= 240 && (sum.takeovers < 40 || sum.lost < 20 || sum.saved < 100 || sum.late < 20) {
		t.Errorf("the rounds are too much alike: %+v", sum)
	}
}

// spec returns the job of a round.
func (r *saveRound) spec() *messages.JobSpec {
	s := saveGang("low", script{run: 3 * time.Hour, rank: -1, acks: r.acks})
	s.Checkpoint = &messages.CheckpointSpec{Signal: 10, GraceMs: r.grace.Milliseconds()}
	if r.acks == acksExit {
		s.Checkpoint.Ack = messages.SaveAck_SAVE_ACK_EXIT
	}
	if r.rank0 {
		s.Checkpoint.Commit = messages.SaveCommit_SAVE_COMMIT_RANK0
	}
	if r.why == messages.Cause_CAUSE_TIME_LIMIT {
		s.TimeLimitMs = (2*time.Minute + r.grace).Milliseconds()
	}
	return s
}

func saveGang(name string, run script) *messages.JobSpec {
	return &messages.JobSpec{
		Name: name, Queue: "q", Image: "host", Command: run.command(), Restart: &messages.RestartSpec{},
		Gang: &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2}, Stop: &messages.StopSpec{GraceMs: 2000},
		Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: 8 * topology.WholeGPU},
	}
}

// newSaveWorld returns a world with a queue in which priority preempts.
func newSaveWorld(t *testing.T, n int) *World {
	c := actors.DefaultConstants()
	w, err := NewWorld(Options{
		Seed: uint64(n + 1), World: "small", Plain: true, Machines: 2, GPUs: []int{8}, Schedulers: 2, Constants: &c,
		Settings: expected(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(15 * time.Second)
	yes, none, applied := true, int64(0), false
	w.Ask(actors.SchedulerPath, &messages.ApplyQueues{Principal: anonymous, Queues: &messages.Queues{
		Queues: []*messages.QueueSpec{{Name: "q", ByPriority: &yes, MinRunMs: &none}},
	}}, func(m messages.Message) {
		applied = m.(*messages.ApplyQueuesReply).Outcome.GetCode() == messages.Code_CODE_OK
	})
	if !w.StepUntil(func() bool { return applied }, 10*time.Second) {
		t.Fatal("the queue was not applied")
	}
	return w
}

// stop stops the gang for the reason of the round.
func (r *saveRound) stop(w *World, low *Order) {
	switch r.why {
	case messages.Cause_CAUSE_PREEMPTED:
		high := saveGang("high", script{run: 20 * time.Second, rank: -1})
		high.Priority = 10
		w.Submit(high)
	case messages.Cause_CAUSE_DRAINED:
		w.Change(1+r.n%2, messages.NodeVerb_NODE_VERB_DRAIN, r.grace+time.Duration(r.n%3)*10*time.Second)
	case messages.Cause_CAUSE_REQUEUED:
		w.client.requeueAnd(low, true)
	}
}

// disturb crashes the leader, or a node, at the letter of the round.
func (r *saveRound) disturb(w *World, c *saveWitness, low *Order) func(Letter) {
	return func(l Letter) {
		if m, is := l.Message.(*messages.Stop); is && m.Order.Job == low.ID() && c.stops[l.To] == 0 {
			c.stops[l.To] = w.engine.now
		}
		if c.last == 0 || r.letter == 0 || r.done {
			return
		}
		if r.letters++; r.letters == r.letter {
			r.done = true
			w.At(w.Now()+time.Millisecond, func() {
				if r.loses {
					c.until = w.engine.now.plus(-time.Second)
					w.PowerLoss(1+r.n%2, 90*time.Second)
				} else {
					w.CrashLeader()
				}
			})
		}
	}
}

func playSaveRound(t *testing.T, r *saveRound, sum *saveTally) {
	w := newSaveWorld(t, r.n)
	c := &saveWitness{rule: rule{"saved-rounds", on{TaskTold, TaskSaved, Stored}}, deadline: map[uint64]instant{},
		acks: map[uint64]map[int32]acknowledged{}, stops: map[string]instant{},
		until: math.MaxInt64}
	for _, kind := range c.watches {
		w.byKind[kind] = append(slices.Clone(w.byKind[kind]), c)
	}
	low := w.Submit(r.spec())
	w.OnLetter(r.disturb(w, c, low))
	if !w.StepUntil(func() bool { return w.Attempt(low).GetStartedUnixMs() > 0 }, time.Minute) {
		t.Fatalf("round %+v: the gang did not start", *r)
	}
	c.token = messages.FromToken(w.Attempt(low).Token)
	w.RunFor(time.Minute + time.Duration(r.n%13)*time.Second)
	r.stop(w, low)
	if !w.StepUntil(func() bool { return c.ended != 0 }, 10*time.Minute) {
		t.Fatalf("round %+v: the gang was not stopped: %v", *r, w.Attempt(low))
	}
	r.judge(t, c.record, c, sum)
	if !w.StepUntil(func() bool {
		return !slices.ContainsFunc(c.record.Places, func(p *messages.Place) bool { return p.Exit == nil })
	}, 5*time.Minute) {
		t.Error("the gang was stopped in part")
	}
	if r.letter == 0 && r.acks != acksExit {
		var all []instant
		for _, at := range c.stops { //order: sorted below
			all = append(all, at)
		}
		if slices.Sort(all); len(all) != 2 || all[1].since(all[0]) > time.Second {
			t.Errorf("the nodes got their stops at %v", c.stops)
		}
	}
	if len(w.Violations()) > 0 {
		t.Error(w.Violations())
	}
}

// judge checks the end of the first attempt.
func (r *saveRound) judge(t *testing.T, a *messages.AttemptRecord, c *saveWitness, sum *saveTally) {
	sum.stopped[a.End.Cause]++
	switch {
	case r.done && r.loses:
		sum.lost++
	case r.done:
		sum.takeovers++
	}
	required := 2
	if r.rank0 {
		required = 1
	}
	// After a takeover, the exits of tasks that saved still count, but their steps were for an earlier request.
	unnamed := r.acks == acksExit && r.done && a.Saved != nil && a.Saved.Step == 0
	if unnamed {
		sum.unnamed++
	}
	if kept := c.kept(required); kept > a.Saved.GetStep() && !unnamed {
		t.Errorf("all ranks acknowledged step %d, but step %d is on disk", kept, a.Saved.GetStep())
	}
	switch {
	case a.Saved != nil && a.Missed == nil:
		sum.saved++
	case a.Missed.GetLate():
		sum.late++
	case a.Missed != nil:
		sum.missed++
	}
	if !r.loses && (a.End.Cause == messages.Cause_CAUSE_MEMBER_FAILED || a.Verdict.GetCharged()) {
		t.Errorf("tasks that saved and exited count as failed: %v, %v", a.End, a.Verdict)
	}
	if r.acks != acksNever || r.done && r.loses || c.last == 0 {
		return
	}
	if a.Saved != nil || a.Missed == nil {
		t.Errorf("a rank acknowledged nothing, but the record says %v, %v", a.Saved, a.Missed)
	}
	by := c.ended.since(c.deadline[c.last])
	sum.early, sum.after = max(sum.early, -by), max(sum.after, by)
	if by < -time.Second || by > time.Second {
		t.Errorf("the gang ended %v after its deadline, %s", by, fmt.Sprint(a.End))
	}
}
