package job

import (
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// idleGang is a gang of two tasks on two nodes whose queue notifies idle jobs after ten minutes.
type idleGang struct {
	*Job
	clock *leadertest.Clock
	token *messages.Token
	ctx   *leadertest.Context
}

func newIdleGang() *idleGang {
	j, clock, token := gangOfTwo()
	j.p.Peers = leadertest.Nodes{}
	j.rec.Spec.Warn = &messages.WarnSpec{Signal: 10, AheadMs: 1000}
	for _, c := range j.contacts {
		c.incarnation, c.vocabulary = &messages.Incarnation{}, messages.VocabularyWarn
	}
	j.warning.begin(1, false)
	g := &idleGang{j, clock, token, &leadertest.Context{Said: new([]leadertest.Letter)}}
	g.onSignalIdle(g.ctx, protocol.SignalIdle{After: 10 * time.Minute})
	return g
}

// uses reports that the task on a node has been idle for some minutes, and returns the warnings that this causes.
func (g *idleGang) uses(node topology.NodeID, tasks int32, minutes int64) (said []*messages.Warn) {
	g.clock.At += 1e9
	return g.says(func() {
		g.onProgressHeard(g.ctx, protocol.ProgressHeard{Node: node, Progress: &messages.AttemptProgress{Token: g.token,
			Job: "j1", Use: &messages.Use{Tasks: tasks, IdleMs: minutes * 60_000}}})
	})
}

func (g *idleGang) says(does func()) (said []*messages.Warn) {
	*g.ctx.Said = nil
	does()
	for _, l := range *g.ctx.Said {
		if m, is := l.Message.(*messages.Warn); is {
			said = append(said, m)
		}
	}
	return said
}

// TestIdleNotified checks that each node gets one notice when the job becomes idle, and another one when the job works
// again. The next idle time has another number.
func TestIdleNotified(t *testing.T) {
	g := newIdleGang()
	if said := slices.Concat(g.uses("n1", 1, 11), g.uses("n2", 1, 9)); len(said) > 0 {
		t.Fatalf("one task is idle too short, but said is %v", said)
	}
	said := g.uses("n2", 1, 10)
	if len(said) != 2 || said[0].IdleMs != 600_000 || said[0].Of == 0 || said[0].Cause != 0 {
		t.Fatalf("said is %v", said)
	}
	if again := slices.Concat(g.uses("n1", 1, 11), g.uses("n2", 1, 11)); len(again) > 0 {
		t.Fatalf("said again is %v", again)
	}
	works := g.uses("n1", 1, 0)
	if len(works) != 2 || works[0].IdleMs != 0 || works[0].Number <= said[0].Number {
		t.Fatalf("when it works, said is %v", works)
	}
	if next := g.uses("n1", 1, 20); len(next) != 2 || next[0].Of == said[0].Of {
		t.Fatalf("in the next idle time, said is %v", next)
	}
}

// TestIdleMissed checks that work between two idle times counts, even if no report said that the job works.
func TestIdleMissed(t *testing.T) {
	g := newIdleGang()
	g.uses("n1", 1, 10)
	first := g.uses("n2", 1, 10)
	g.clock.At += 3600e9
	next := slices.Concat(g.uses("n1", 1, 12), g.uses("n2", 1, 12))
	if len(first) != 2 || len(next) == 0 || next[len(next)-1].IdleMs == 0 || next[len(next)-1].Of == first[0].Of {
		t.Fatalf("after an hour without reports, said is %v", next)
	}
}

// TestIdleUnknown checks that a job is not idle if a task is not measured, if a node is not reachable, if its tasks
// want no warning, or if the queue does not notify.
func TestIdleUnknown(t *testing.T) {
	for name, change := range map[string]func(*idleGang){
		"a node that is lost":  func(g *idleGang) { g.contacts["n1"].up = false },
		"no warning":           func(g *idleGang) { g.rec.Spec.Warn = nil },
		"a queue that reports": func(g *idleGang) { g.onSignalIdle(g.ctx, protocol.SignalIdle{}) },
		"another attempt":      func(g *idleGang) { g.token = messages.ToToken(topology.Token{Epoch: 1, Counter: 8}) },
	} {
		g := newIdleGang()
		change(g)
		if said := slices.Concat(g.uses("n1", 1, 50), g.uses("n2", 1, 50)); len(said) > 0 {
			t.Errorf("%s: said is %v", name, said)
		}
	}
	g := newIdleGang()
	if said := slices.Concat(g.uses("n1", 0, 50), g.uses("n2", 1, 50)); len(said) > 0 {
		t.Errorf("a task that is not measured: said is %v", said)
	}
	if said := g.uses("n1", 1, 50); len(said) != 2 {
		t.Errorf("both are measured: said is %v", said)
	}
	if said := g.says(func() { g.onSignalIdle(g.ctx, protocol.SignalIdle{}) }); len(said) != 2 || said[0].IdleMs != 0 {
		t.Errorf("the queue changes: said is %v", said)
	}
}

// TestEndBeforeIdle checks that the tasks are warned of a coming end, although the job is idle.
func TestEndBeforeIdle(t *testing.T) {
	g := newIdleGang()
	g.uses("n1", 1, 10)
	g.uses("n2", 1, 10)
	drained := protocol.Drains{Node: "n1", Ends: g.clock.At.Plus(time.Second / 2), Ordered: 7}
	said := g.says(func() { g.onDrains(g.ctx, drained) })
	if len(said) != 2 || said[0].Cause != messages.Cause_CAUSE_DRAINED || said[0].IdleMs != 0 {
		t.Fatalf("said is %v", said)
	}
	said = g.says(func() { g.onDrains(g.ctx, protocol.Drains{Node: "n1"}) })
	if len(said) != 2 || said[0].Cause != messages.Cause_CAUSE_UNSPECIFIED || said[0].IdleMs == 0 {
		t.Fatalf("after the drain is cancelled, said is %v", said)
	}
}

// TestIdleAndRequest checks that a request to save is withdrawn with its end if the job is idle.
func TestIdleAndRequest(t *testing.T) {
	g := newIdleGang()
	g.rec.Spec.Warn, g.rec.Spec.Checkpoint = nil, &messages.CheckpointSpec{GraceMs: 60_000}
	g.uses("n1", 1, 10)
	g.uses("n2", 1, 10)
	g.onDrains(g.ctx, protocol.Drains{Node: "n1", Ends: g.clock.At.Plus(30 * time.Second), Ordered: 7})
	if !g.saving.open() {
		t.Fatal("no request to save is open")
	}
	said := g.says(func() { g.onDrains(g.ctx, protocol.Drains{Node: "n1"}) })
	if g.saving.open() || len(said) != 2 || said[0].IdleMs == 0 || said[0].Request != 0 {
		t.Fatalf("after the drain is cancelled, said is %v", said)
	}
}
