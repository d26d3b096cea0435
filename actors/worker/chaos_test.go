package worker

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns random tests of the Node under any order of events. The leader is honest. The network repeats earlier
// messages, the disk is slow or fails, the launcher is slow, and the agent and the node restart. Sent facts are on
// disk, and evidence stays true. Each start requires a Start for this incarnation and its record on disk. No device has
// two owners.

type nodeChaos struct {
	*nodeRig
	t        *rapid.T
	attempts []*chaosAttempt
	greeted  int // the agent whose Hello the leader has received
	faults   bool
}

// chaosAttempt holds the leader's knowledge of an attempt.
type chaosAttempt struct {
	token    topology.Token
	members  []*messages.Member
	reserved bool
	commit   bool // COMMIT is on the leader's disk
	prepared bool
	over     bool // aborted, or a Stop was sent
	ended    bool // Ended was sent
	started  int  // the agent that received Start
	exits    map[int32]*messages.Exit
}

func newNodeChaos(t *rapid.T) *nodeChaos {
	c := &nodeChaos{nodeRig: newNodeRig(t, 3), t: t}
	c.hush = true
	c.launcher.auto = false
	c.watch = c.heard
	c.start()
	c.join(t)
	return c
}

// join makes the leader greet the agent.
func (c *nodeChaos) join(*rapid.T) {
	c.tell(&messages.Lead{Epoch: c.epoch, ClusterId: "c"}, "leader")
	if c.greeted == c.agent {
		c.tell(&messages.Welcome{Epoch: c.epoch, Text: "Welcome to Synapse", Incarnation: c.incarnation()}, "leader")
	}
}

func (c *nodeChaos) attempt(t topology.Token) *chaosAttempt {
	for _, a := range c.attempts {
		if a.token == t {
			return a
		}
	}
	return nil
}

// onDisk returns the record of an attempt on disk, or nil if there is none.
func (c *nodeChaos) onDisk(t topology.Token) *messages.SliceRecord {
	if c.disk.content == nil {
		return nil
	}
	r, err := decodeRecord(c.disk.content)
	if err != nil {
		c.t.Fatalf("the disk: %v", err)
	}
	for _, s := range r.Slices {
		if messages.FromToken(s.Token) == t {
			return s
		}
	}
	return nil
}

// orderFor returns the header of a command.
func (c *nodeChaos) orderFor(a *chaosAttempt) *messages.Order {
	return &messages.Order{Epoch: c.epoch, Token: messages.ToToken(a.token), Job: "j", Node: "a",
		Incarnation: c.incarnation(), Seq: 1}
}

// command returns a step that sends a command for a random attempt that fits. The step is skipped if the leader has not
// heard this start of the agent.
func (c *nodeChaos) command(fits func(*chaosAttempt) bool, make func(*chaosAttempt) proto.Message) func(*rapid.T) {
	return func(t *rapid.T) {
		var all []*chaosAttempt
		for _, a := range c.attempts {
			if c.greeted == c.agent && fits(a) {
				all = append(all, a)
			}
		}
		if len(all) == 0 {
			t.Skip("no attempt fits")
		}
		c.order(make(rapid.SampledFrom(all).Draw(t, "attempt")))
	}
}

func (c *nodeChaos) reserve(t *rapid.T) {
	if c.greeted != c.agent {
		t.Skip("the leader does not know this agent yet")
	}
	a := &chaosAttempt{token: topology.Token{Epoch: c.epoch, Counter: uint64(len(c.attempts) + 1)},
		exits: map[int32]*messages.Exit{}}
	for r := range rapid.IntRange(1, 2).Draw(t, "ranks") {
		a.members = append(a.members, &messages.Member{Rank: int32(r), Amount: &messages.Resources{
			MilliCpu: 500, MemoryBytes: 1 << 30, MilliGpu: rapid.SampledFrom([]int64{0, 400, 1000}).Draw(t, "gpu"),
		}})
	}
	c.attempts = append(c.attempts, a)
	c.order(&messages.Reserve{Order: c.orderFor(a), Members: a.members, TtlMs: 10_000})
}

// replay repeats any earlier message to its receiver.
func (c *nodeChaos) replay(t *rapid.T) {
	if len(c.sent) == 0 {
		t.Skip("no message to repeat")
	}
	c.tell(rapid.SampledFrom(c.sent).Draw(t, "message"), "leader")
}

// replayAttempt repeats all messages about one attempt, in order.
func (c *nodeChaos) replayAttempt(t *rapid.T) {
	if len(c.attempts) == 0 {
		t.Skip("no message to repeat")
	}
	a := rapid.SampledFrom(c.attempts).Draw(t, "attempt")
	for _, m := range c.sent {
		if o := m.(command).GetOrder(); messages.FromToken(o.Token) == a.token {
			c.tell(m, "leader")
		}
	}
}

func (c *nodeChaos) commit(a *chaosAttempt) proto.Message {
	a.commit = true
	return &messages.Commit{Order: c.orderFor(a), Spec: &messages.JobSpec{Name: "n", Image: "i"}, Members: a.members}
}

func (c *nodeChaos) begin(a *chaosAttempt) proto.Message {
	a.started = c.agent
	return &messages.Start{Order: c.orderFor(a), JobName: "n", Run: 1, Rendezvous: &messages.Rendezvous{
		Address: "10.0.0.1", Port: 30000, Peers: []*messages.Peer{{Node: "a", Address: "10.0.0.1", Rack: "r"}}}}
}

func (c *nodeChaos) forget(a *chaosAttempt) proto.Message {
	return &messages.Forget{Order: c.orderFor(a)}
}

// gang drives a new attempt through several steps without interruption, so that later events meet allocations in every
// state.
func (c *nodeChaos) gang(t *rapid.T) {
	c.reserve(t)
	a := c.attempts[len(c.attempts)-1]
	steps := []func(){
		func() { c.order(c.commit(a)) },
		func() { c.turn(a, 1) },
		func() { c.order(c.begin(a)) },
		func() { c.turn(a, 1) },
		func() { c.turn(a, 0) },
		func() { c.order(c.forget(a)) },
	}
	ready := []func() bool{
		func() bool { return a.reserved && !a.over }, func() bool { return true }, func() bool { return a.prepared },
		func() bool { return true }, func() bool { return true }, func() bool { return a.ended },
	}
	for i, step := range steps[:rapid.IntRange(0, len(steps)).Draw(t, "far")] {
		if !ready[i]() {
			return
		}
		step()
	}
}

// turn causes the same event for all containers of an attempt.
func (c *nodeChaos) turn(a *chaosAttempt, luck int) {
	for _, m := range a.members {
		if k := (topology.TaskKey{Token: a.token, Rank: topology.Rank(m.Rank)}); c.launcher.tasks[k] != nil {
			c.happen(k, luck)
		}
	}
}

// progress causes an event of a container.
func (c *nodeChaos) progress(t *rapid.T) {
	if len(c.launcher.order) == 0 {
		t.Skip("no container")
	}
	c.happen(rapid.SampledFrom(c.launcher.order).Draw(t, "task"), rapid.IntRange(0, 5).Draw(t, "luck"))
}

func (c *nodeChaos) happen(k topology.TaskKey, luck int) {
	l := &c.launcher
	x := l.tasks[k]
	switch {
	case x.exit != nil, x.spawned && !x.stopped && luck > 2:
		l.answer(k)
	case x.spawned:
		l.end(k, messages.ExitKind_EXIT_KIND_EXITED, int32(luck))
	case x.stopped:
		l.end(k, messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0)
	case x.asked && luck == 0:
		l.end(k, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, 125)
	case x.asked:
		x.spawned = true
		l.answer(k)
	case luck == 0:
		l.end(k, messages.ExitKind_EXIT_KIND_PREPARE_FAILED, 0)
	default:
		x.prepared = true
		l.answer(k)
	}
	c.settle()
}

func (c *nodeChaos) diskTurns(t *rapid.T) {
	d := &c.disk
	switch rapid.IntRange(0, 5).Draw(t, "disk") {
	case 0:
		d.fault, d.keep, c.faults = "EIO", rapid.Bool().Draw(t, "kept"), true
	case 1, 2:
		d.fault = ""
	default:
		if d.held = !d.held; !d.held && d.saving != 0 {
			c.finishSave()
			c.settle()
		}
	}
}

func (c *nodeChaos) restart(t *rapid.T) {
	if d := &c.disk; d.saving != 0 && rapid.Bool().Draw(t, "written") {
		d.content = d.pending
	}
	c.disk.held = false
	if rapid.IntRange(0, 3).Draw(t, "boot") == 0 {
		c.reboot()
	}
	c.start()
}

// TestNodeChaos runs random sequences of events.
func TestNodeChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newNodeChaos(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        c.check,
			"reserve": c.reserve,
			"abort": c.command(func(a *chaosAttempt) bool { return !a.commit }, func(a *chaosAttempt) proto.Message {
				a.over = true
				return &messages.Abort{Order: c.orderFor(a)}
			}),
			"gang":   c.gang,
			"again":  c.gang,
			"commit": c.command(func(a *chaosAttempt) bool { return a.reserved && !a.over }, c.commit),
			"start":  c.command(func(a *chaosAttempt) bool { return a.prepared && !a.over }, c.begin),
			"stop": c.command(func(a *chaosAttempt) bool { return a.commit }, func(a *chaosAttempt) proto.Message {
				a.over = true
				return &messages.Stop{Order: c.orderFor(a), Cause: messages.Cause_CAUSE_CANCELLED}
			}),
			"forget":   c.command(func(a *chaosAttempt) bool { return a.ended }, c.forget),
			"replay":   c.replay,
			"replays":  c.replayAttempt,
			"progress": c.progress,
			"more":     c.progress,
			"disk":     c.diskTurns,
			"time":     func(t *rapid.T) { c.pass(time.Duration(rapid.Int64Range(1, 8e9).Draw(t, "wait"))) },
			"restart":  c.restart,
			"join":     c.join,
			"next leader": func(t *rapid.T) {
				c.epoch++
				c.join(t)
			},
			"fault": func(t *rapid.T) {
				gpu := rapid.SampledFrom([]string{"gpu-0", "gpu-1", "gpu-2"}).Draw(t, "gpu")
				if rapid.Bool().Draw(t, "well") {
					c.tell(&messages.GpuRecovered{GpuId: gpu}, "node-a")
				} else {
					c.tell(&messages.GpuFaulted{GpuId: gpu, Detail: "fell off the bus"}, "node-a")
				}
			},
		})
	})
}
