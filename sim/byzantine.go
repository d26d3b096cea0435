package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates hostile nodes. In addition to its Node's messages, a hostile node sends all that its certificate
// allows, at full speed. It sends to the actors of every job and to its Rack. Its messages are about attempts of other
// nodes, invented attempts and its own attempts. A real link drops invalid messages and messages under another node's
// name. The simulation drops them too.

const (
	// byzantinePause and byzantineBurst set how fast a hostile node sends: a tenth of the rate at which a link is
	// read.
	byzantinePause = 20 * time.Millisecond
	byzantineBurst = 20
)

// byzantine makes a node of the cluster hostile for a while.
func byzantine(f *faults, m *machine) bool {
	if m.gone || m.proc == nil || m.proc.node == nil {
		return false
	}
	for _, other := range f.w.machines {
		if other.lies != nil || other.rages {
			return false // one at a time, because two nodes that agree are believed
		}
	}
	f.w.rage(m)
	f.until(f.w.luck.between(time.Second, 4*time.Second), func() {
		m.rages = false
		f.w.repent(m)
	})
	return true
}

// rage makes a node send arbitrary messages until it is repaired.
func (w *World) rage(m *machine) {
	w.say("%s sends arbitrary messages", m.address)
	m.rages, m.raged, m.lied = true, true, true
	w.rageOn(m)
}

func (w *World) rageOn(m *machine) {
	if !m.rages {
		return
	}
	for range byzantineBurst {
		w.rant(m)
	}
	w.engine.after(byzantinePause, func() { w.rageOn(m) })
}

// rant sends one arbitrary message.
func (w *World) rant(m *machine) {
	leader := w.leader()
	if m.proc == nil || m.proc.dead || m.proc.node == nil || leader == nil {
		return
	}
	job, token := w.victim(m)
	o := &messages.Origin{
		Token: messages.ToToken(token), Job: string(job), Node: string(m.id), MachineId: m.machineID,
		Incarnation: m.proc.incarnation,
	}
	if w.luck.chance(0.1) {
		o.Node, o.MachineId = string(w.machines[w.luck.below(len(w.machines))].id), "machine-of-another"
	}
	word := w.anything(m, o)
	if o.Node != string(m.id) || word.(interface{ Validate() error }).Validate() != nil {
		w.count("net.refused", 1)
		return
	}
	path := actors.JobPath(job)
	w.fired("rant")
	w.ranting = true
	defer func() { w.ranting = false }()
	w.send(m.proc, actor.NewPID(leader.address, path), actor.NewPID(m.address, actors.NodePath), word)
}

// victim returns an attempt for a false message: one of another node, an invented one, or one of the node itself.
func (w *World) victim(m *machine) (topology.JobID, topology.Token) {
	other := w.machines[w.luck.below(len(w.machines))]
	slices := other.slices()
	if len(slices) == 0 {
		slices = m.slices()
	}
	if len(slices) == 0 {
		return "nobodys", topology.Token{Epoch: 1, Counter: madeUpCounter}
	}
	s := slices[w.luck.below(len(slices))]
	if w.luck.chance(0.2) {
		return s.Job, topology.Token{Epoch: s.Token.Epoch, Counter: madeUpCounter}
	}
	return s.Job, s.Token
}

// anything returns a message of any kind about an attempt, with false exits and amounts.
func (w *World) anything(m *machine, o *messages.Origin) messages.Message {
	exit := &messages.Exit{
		Rank: int32(w.luck.below(4)), Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: int32(w.luck.below(3)), ByItself: true,
		Detail: fmt.Sprintf("said by %s", m.id),
	}
	switch w.luck.below(9) {
	case 0:
		return &messages.Exited{Origin: o, Exits: []*messages.Exit{exit}, AgesMs: []int64{1}}
	case 1:
		return &messages.Ended{Origin: o, Exits: []*messages.Exit{exit}, AgesMs: []int64{1}}
	case 2:
		return &messages.Committed{Origin: o}
	case 3:
		return &messages.Prepared{Origin: o}
	case 4:
		return &messages.Started{Origin: o}
	case 5:
		return &messages.Expired{Origin: o}
	case 6:
		return &messages.Aborted{Origin: o}
	case 7:
		return &messages.Refused{
			Origin: o, Reason: messages.RefusalReason_REFUSAL_REASON_SHORTAGE, Detail: "there is nothing", Ledger: m.books,
		}
	}
	amount := int64(w.luck.below(1<<20)) << w.luck.below(30)
	if w.luck.chance(0.3) {
		amount = -amount
	}
	return &messages.Reserved{Origin: o, RendezvousPort: 1, Address: "10.0.0.66", Grants: []*messages.Grant{{
		Rank: int32(w.luck.below(4)), Amount: &messages.Resources{MilliCpu: amount, MemoryBytes: amount, MilliGpu: 0},
	}}}
}
