package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file defines what a script can do to a world: send requests, cause faults, read state, and advance time until a
// condition holds. A world for a script is made with Options.Plain, so that nothing arrives and nothing breaks by
// itself. Scripts name nodes by their number, from 1.

// Now returns the virtual time since the world began.
func (w *World) Now() time.Duration { return w.engine.now.duration() }

// StepUntil runs the world until a condition holds, and reports whether it did within the time. It calls holds after
// every step.
func (w *World) StepUntil(holds func() bool, within time.Duration) bool {
	limit := w.engine.now.plus(within)
	for !holds() {
		if w.engine.halted || w.engine.now >= limit || !w.engine.step(limit) && w.engine.now >= limit {
			return holds()
		}
	}
	return true
}

// Node returns the ID of a node by its number.
func (w *World) Node(number int) topology.NodeID { return w.at(number).id }

func (w *World) at(number int) *machine {
	for _, m := range w.foreign {
		if m.index == number-1 {
			return m
		}
	}
	if number < 1 || number > len(w.machines) {
		panic(fmt.Sprintf("script error: no node has the number %d", number))
	}
	return w.machines[number-1]
}

// Submit submits a job as a client that repeats the request until it is acknowledged.
func (w *World) Submit(spec *messages.JobSpec) *Order { return w.client.submit(spec) }

// SubmitAs submits a job in an owner's name, held if requested. An empty name means no owner.
func (w *World) SubmitAs(owner string, spec *messages.JobSpec, held bool) *Order {
	return w.client.submitAs(&messages.Principal{
		Name: cmp.Or(owner, messages.Anonymous), Proven: owner != "",
	}, spec, held)
}

// Cancel requests a job's cancel until it is acknowledged.
func (w *World) Cancel(o *Order) { w.client.cancel(o) }

// Hold holds a job, and Release releases it.
func (w *World) Hold(o *Order)    { w.client.hold(o, false) }
func (w *World) Release(o *Order) { w.client.hold(o, true) }

// Change requests an operator's change of a node until it is acknowledged.
func (w *World) Change(number int, verb messages.NodeVerb, deadline time.Duration) {
	w.client.change(w.at(number), verb, deadline)
}

// Close requests a drain that begins at a time of day, until it is acknowledged.
func (w *World) Close(number int, atUnixMs int64, deadline time.Duration) {
	w.client.closes(w.at(number), atUnixMs, deadline)
}

// Ask sends any message to an actor of the leader, and calls answered with the answer, if one comes.
func (w *World) Ask(path string, message messages.Message, answered func(messages.Message)) {
	p := w.leader()
	if p == nil {
		return
	}
	w.client.next++
	a := &ask{path: fmt.Sprintf("ask-%d", w.client.next), message: message, since: w.engine.now,
		answered: func(m messages.Message) bool {
			answered(m)
			return true
		}}
	w.client.asks[a.path] = a
	w.send(nil, actor.NewPID(p.address, path), actor.NewPID(clientAddress, a.path), message)
}

// Epoch returns the leader's epoch.
func (w *World) Epoch() uint64 {
	if p := w.leader(); p != nil {
		return p.epoch
	}
	return 0
}

// CrashLeader kills the leader's process. It returns as a standby.
func (w *World) CrashLeader() {
	w.harms()
	if p := w.leader(); p != nil {
		p.crash()
	}
}

// PauseLeader stops the leader's process for a while.
func (w *World) PauseLeader(d time.Duration) {
	w.harms()
	if p := w.leader(); p != nil {
		w.faults.suspend(p, d)
	}
}

// Usurp lets a standby take over without the present leader's knowledge.
func (w *World) Usurp() bool {
	w.harms()
	return w.usurp(time.Minute) != nil
}

// MoveClocks moves the schedulers' wall clocks.
func (w *World) MoveClocks(by time.Duration) {
	for _, h := range w.schedulers {
		*h.clock.wallBy += by
	}
}

// MoveClock moves a node's wall clock.
func (w *World) MoveClock(number int, by time.Duration) { *w.at(number).clock.wallBy += by }

// StoreAway makes every call to the store fail for a while.
func (w *World) StoreAway(d time.Duration) {
	if !w.draw.Alone {
		w.harms()
	}
	w.store.outage++
	w.engine.after(d, func() { w.store.outage-- })
}

// CrashAgent kills a node's agent, which starts again after a while.
func (w *World) CrashAgent(number int) {
	w.harms()
	if p := w.at(number).proc; p != nil {
		p.crash()
	}
}

// PauseAgent stops a node's agent for a while.
func (w *World) PauseAgent(number int, d time.Duration) {
	w.harms()
	if p := w.at(number).proc; p != nil {
		w.faults.suspend(p, d)
	}
}

// PowerLoss takes a node down for a while, or for ever if away is 0.
func (w *World) PowerLoss(number int, away time.Duration) {
	w.harms()
	w.at(number).powerLoss(away)
}

// Cut disconnects a node from the network in both directions. Mend undoes it.
func (w *World) Cut(number int) {
	w.harms()
	for _, l := range w.at(number).links {
		l.block(towardMachine)
		l.block(towardScheduler)
	}
}

// Mend undoes a Cut.
func (w *World) Mend(number int) {
	for _, l := range w.at(number).links {
		l.unblock(towardMachine)
		l.unblock(towardScheduler)
	}
}

// CutOneWay blocks the messages to a node, or from a node, for a while.
func (w *World) CutOneWay(number int, toMachine bool, d time.Duration) {
	w.harms()
	toward := towardScheduler
	if toMachine {
		toward = towardMachine
	}
	for _, l := range w.at(number).links {
		w.faults.block(l, toward, d)
	}
}

// Lose makes the network lose every letter that the script selects. nil ends it.
func (w *World) Lose(lost func(Letter) bool) {
	w.lose = lost
	w.harms()
}

// harms notes that this world loses messages, so that no checker expects more than such a world can guarantee.
func (w *World) harms() {
	w.faults.byName["script"] = &moment{site: &site{name: "script"}}
}

// Hostile makes the network lose, double and delay letters. Zeros end it.
func (w *World) Hostile(drop, double, late float64, lateMost time.Duration) {
	w.hostile = nil
	if drop+double+late > 0 {
		w.harms()
		w.hostile = &hostility{drop: drop, double: double, late: late, lateMost: lateMost}
	}
}

// BreakDisk makes a node's disk fail, or be full, for a while.
func (w *World) BreakDisk(number int, full bool, d time.Duration) {
	m := w.at(number)
	m.disk.failing, m.disk.full = w.engine.now.plus(d), full
}

// StallDisk makes a node's disk answer nothing for a while.
func (w *World) StallDisk(number int, d time.Duration) {
	w.at(number).disk.stalled = w.engine.now.plus(d)
}

// TearDisk corrupts the content of a node's disk. The agent detects it at its next start.
func (w *World) TearDisk(number int) {
	w.harms()
	w.at(number).tear()
}

// MendGPU repairs a GPU.
func (w *World) MendGPU(number, device int) {
	m := w.at(number)
	m.launcher.mend(m.announcement.Gpus[device].Id)
}

// FaultGPU breaks a GPU until it is repaired.
func (w *World) FaultGPU(number, device int) {
	m := w.at(number)
	m.launcher.fault(m.announcement.Gpus[device].Id)
}

// Ail makes a node unhealthy or healthy. Its next check detects the change.
func (w *World) Ail(number int, ails bool) { w.at(number).ails = ails }

// Clone starts a second host from a copy of a node's disk, under the node's name.
func (w *World) Clone(number int) {
	w.harms()
	w.clones = append(w.clones, w.at(number).clone())
}

// Arm makes a random fault strike at the next opportunities, a given number of times. Examples are "launch-fail",
// "prepare-hang" and "store-error".
func (w *World) Arm(site string, times int) {
	known := siteNamed(site)
	if known == nil || known.act != nil {
		panic("there is no fault that strikes by chance named " + site)
	}
	armed := *known
	armed.few = times
	w.faults.byName[site] = &moment{site: &armed, eager: true}
}

// BreakJob makes a job's actor panic at its next message, before it handles the message.
func (w *World) BreakJob(o *Order) {
	w.harms()
	w.Arm("actor-break", 1)
	w.breaking = &breaking{kind: actors.KindJob, only: actors.JobPath(topology.JobID(o.id)), jobs: map[string]int{}}
}

// Processes returns the containers that run on a node as "job/rank", in order of their start.
func (w *World) Processes(number int) []string {
	var out []string
	for _, t := range w.at(number).launcher.order {
		if t.state == taskRunning {
			out = append(out, fmt.Sprintf("%s/%d", t.job, t.key.Rank))
		}
	}
	return out
}

// Ledger returns a node's ledger for reading, or nil while its agent is down.
func (w *World) Ledger(number int) *topology.Ledger {
	if p := w.at(number).proc; p != nil && p.node != nil {
		return p.node.Ledger()
	}
	return nil
}

// UIDs returns the uids of the leaders' range that own files on a node.
func (w *World) UIDs(number int) []uint32 { return w.at(number).launcher.uids() }

// NodeState returns a Node's state in its state table, or "down" while its agent is down.
func (w *World) NodeState(number int) string {
	if p := w.at(number).proc; p != nil && p.node != nil {
		return p.node.State()
	}
	return "down"
}

// RequestID returns the client's name for the request.
func (o *Order) RequestID() string { return o.requestID }

// Element returns one element of an ordered array as a job.
func (o *Order) Element(index string) *Order {
	return &Order{requestID: o.requestID, owner: o.owner, spec: o.spec, id: o.id + "_" + index}
}

// ID returns the job's ID. It is empty until the submit was acknowledged.
func (o *Order) ID() string { return o.id }

// Refused reports whether the job was rejected.
func (o *Order) Refused() bool { return o.refused }

// Stored returns the job's record as it is on the leader's disk, or nil if there is none.
func (w *World) Stored(o *Order) *messages.JobRecord {
	if page := w.books.jobs[o.id]; page != nil {
		return page.record
	}
	return nil
}

// Attempts returns all committed attempts of the job, in order, until the job has finished with all exit confirmations.
func (w *World) Attempts(o *Order) []*messages.AttemptRecord {
	if page := w.books.jobs[o.id]; page != nil {
		return w.books.attemptsOf(page)
	}
	return nil
}

// Attempt returns the job's latest committed attempt. It returns nil if there is none, or once the job has finished
// with all exit confirmations.
func (w *World) Attempt(o *Order) *messages.AttemptRecord {
	if page := w.books.jobs[o.id]; page != nil {
		return w.books.latest(page)
	}
	return nil
}

// Letter is a message between two processes.
type Letter struct {
	From, To, Path string
	Message        messages.Message

	sender *actor.PID
}

// OnLetter calls a script for every message that is sent.
func (w *World) OnLetter(told func(Letter)) { w.onLetter = told }

// Deliver delivers a letter to the present receiver at its address, however old the letter is.
func (w *World) Deliver(l Letter) {
	e := w.endpoints[l.To]
	if e == nil || e.proc == nil || e.proc.dead {
		return
	}
	sender := l.sender
	if sender != nil {
		sender = actor.NewPID(sender.Address, sender.Id)
	}
	message := &actor.MessageEnvelope{Message: proto.Clone(l.Message), Sender: sender}
	if box, found := e.proc.system.ProcessRegistry.GetLocal(l.Path); found {
		box.SendUserMessage(nil, message)
	}
}

// Script returns the command of a task that runs for a while and then exits with a code.
func Script(run time.Duration, exit int32) []string {
	return script{run: run, exit: exit, rank: -1}.command()
}

// Finish ends all faults, waits until every job has finished and all is at rest, and returns the violations.
func (w *World) Finish() []Violation {
	w.heal()
	w.settle()
	w.rest()
	return w.violations
}
