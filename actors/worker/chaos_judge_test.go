package worker

import (
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the checks of every message that the Node sends in a random test.

// heard checks every message that the Node sends.
func (c *nodeChaos) heard(m any) {
	switch m := m.(type) {
	case *messages.Hello:
		c.greeted = c.agent
		if r, err := decodeRecord(c.disk.content); (err != nil || r.Epoch < m.Epoch) && m.Ledger.GetTrouble() == "" {
			c.t.Fatalf("Hello to epoch %d, the disk has %v %v", m.Epoch, r, err)
		}
		c.judgeReport(m.Ledger)
	case *messages.Heartbeat:
		c.judgeReport(m.Ledger)
	case *messages.Report:
		c.judgeReport(m.Ledger)
	case *messages.Refused:
		c.judgeReport(m.Ledger)
	case *messages.StartTask:
		c.judgeSpawn(m.Id.Key())
	case interface{ GetOrigin() *messages.Origin }:
		if a := c.attempt(messages.FromToken(m.GetOrigin().Token)); a != nil {
			c.judgeFact(a, m)
		}
	}
}

func (c *nodeChaos) judgeFact(a *chaosAttempt, m interface{ GetOrigin() *messages.Origin }) {
	d := c.onDisk(a.token)
	switch m := m.(type) {
	case *messages.Reserved:
		a.reserved = true
		c.alive(a, m)
	case *messages.Committed, *messages.Prepared, *messages.Started:
		c.alive(a, m)
		if d == nil {
			c.t.Fatalf("%T of %v, and the disk has nothing of it", m, a.token)
		}
		if _, is := m.(*messages.Prepared); is {
			a.prepared = true
		}
	case *messages.Exited:
		c.judgeExits(a, m.Exits)
	case *messages.Ended:
		c.judgeExits(a, m.Exits)
		a.ended = true
	}
}

// alive checks that no other fact about a token follows an Ended. There is one exception: while the disk fails, a
// restart may take back an end before the start that was already sent.
func (c *nodeChaos) alive(a *chaosAttempt, m any) {
	if a.ended && !c.faults {
		c.t.Fatalf("%T of %v after Ended", m, a.token)
	}
}

// judgeExits checks that an exit is sent only after it is on disk, and that it never changes.
func (c *nodeChaos) judgeExits(a *chaosAttempt, exits []*messages.Exit) {
	d := c.onDisk(a.token)
	for _, e := range exits {
		ran := e.Kind != messages.ExitKind_EXIT_KIND_NEVER_STARTED && e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED
		kept := false
		for _, k := range d.GetExits() {
			kept = kept || proto.Equal(k, e)
		}
		if !kept && (ran || !c.faults) {
			c.t.Fatalf("%v of %v is sent, but the disk has %v", e, a.token, d)
		}
		if before := a.exits[e.Rank]; before != nil && !proto.Equal(before, e) && !c.faults {
			c.t.Fatalf("rank %d of %v: sent %v before, %v now", e.Rank, a.token, before, e)
		}
		a.exits[e.Rank] = e
	}
}

func (c *nodeChaos) judgeReport(l *messages.LedgerReport) {
	for _, s := range l.GetSlices() {
		a := c.attempt(messages.FromToken(s.Token))
		c.judgeExits(a, s.Exits)
		state := c.onDisk(a.token).GetState()
		if s.State > messages.SliceState_SLICE_STATE_RESERVED && state == 0 && !c.faults {
			c.t.Fatalf("%v is reported as %v, the disk has nothing of it", a.token, s.State)
		}
		if s.State == messages.SliceState_SLICE_STATE_OVER && state != s.State && !c.faults {
			c.t.Fatalf("%v is reported over, the disk has %v", a.token, state)
		}
	}
}

// judgeSpawn checks the start barrier on one node (invariant S3).
func (c *nodeChaos) judgeSpawn(k topology.TaskKey) {
	a := c.attempt(k.Token)
	if a.started != c.agent {
		c.t.Fatalf("%v is started by agent %d, but Start went to %d", k, c.agent, a.started)
	}
	if d := c.onDisk(k.Token); d.GetState() != messages.SliceState_SLICE_STATE_STARTED {
		c.t.Fatalf("%v is spawned, the disk has %v", k, d)
	}
}

// check verifies that no device has two owners among the processes (invariant S1), and that none of their devices is
// free.
func (c *nodeChaos) check(*rapid.T) {
	used := map[string]int64{}
	for _, k := range c.launcher.order {
		if x := c.launcher.tasks[k]; x.spawned && x.exit == nil {
			for _, g := range x.grant.GetGpus() {
				used[g.GpuId] += g.Milli
			}
		}
	}
	if c.node.Ready() {
		for _, s := range c.node.Ledger().FreeShares() {
			used[string(s.GPU)] += s.Milli
		}
	}
	for _, g := range c.announce.Gpus {
		if used[g.Id] > topology.WholeGPU {
			c.t.Fatalf("%s: processes have and the ledger offers %d thousandths", g.Id, used[g.Id])
		}
	}
}
