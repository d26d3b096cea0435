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

// This file owns what a script may do to a world: ask for things, break
// things, look at things, and let time pass until something is so. A world for
// a script is made with Options.Plain: nothing arrives and nothing breaks by
// itself. Machines are named by their number, from 1.

// Now is the virtual time since the world began.
func (w *World) Now() time.Duration { return w.engine.now.duration() }

// StepUntil runs the world until a condition holds, and reports whether it did
// within the time. The condition is asked after every step.
func (w *World) StepUntil(holds func() bool, within time.Duration) bool {
	limit := w.engine.now.plus(within)
	for !holds() {
		if w.engine.halted || w.engine.now >= limit || !w.engine.step(limit) && w.engine.now >= limit {
			return holds()
		}
	}
	return true
}

// Node is the id of a machine by its number.
func (w *World) Node(number int) topology.NodeID { return w.at(number).id }

func (w *World) at(number int) *machine {
	for _, m := range w.foreign {
		if m.index == number-1 {
			return m
		}
	}
	if number < 1 || number > len(w.machines) {
		panic(fmt.Sprintf("there is no machine %d", number))
	}
	return w.machines[number-1]
}

// Submit orders a job, as a client that tries until it is acknowledged.
func (w *World) Submit(spec *messages.JobSpec) *Order { return w.client.submit(spec) }

// SubmitAs orders a job in somebody's name; empty: in that of nobody.
func (w *World) SubmitAs(owner string, spec *messages.JobSpec) *Order {
	return w.client.submitAs(&messages.Principal{
		Name: cmp.Or(owner, messages.Anonymous), Proven: owner != "",
	}, spec)
}

// Cancel asks for a job's end until that is acknowledged.
func (w *World) Cancel(o *Order) { w.client.cancel(o) }

// Hold keeps a job from being planned; Release lets it go.
func (w *World) Hold(o *Order)    { w.client.hold(o, false) }
func (w *World) Release(o *Order) { w.client.hold(o, true) }

// Change asks for an operator's change of a machine until it is acknowledged.
func (w *World) Change(number int, verb messages.NodeVerb, deadline time.Duration) {
	w.client.change(w.at(number), verb, deadline)
}

// Close asks for a drain that begins at a time of day, likewise.
func (w *World) Close(number int, atUnixMs int64, deadline time.Duration) {
	w.client.closes(w.at(number), atUnixMs, deadline)
}

// Ask sends any message to an actor of the leader; the answer is handed over,
// if one comes.
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

// Epoch is that of the leader.
func (w *World) Epoch() uint64 {
	if p := w.leader(); p != nil {
		return p.epoch
	}
	return 0
}

// CrashLeader kills the leader's process. It comes back as a standby.
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

// Usurp lets a standby take over while the present leader knows nothing of it.
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

// MoveClock moves a machine's wall clock.
func (w *World) MoveClock(number int, by time.Duration) { *w.at(number).clock.wallBy += by }

// StoreAway makes every call to the store fail for a while.
func (w *World) StoreAway(d time.Duration) {
	if !w.draw.Alone {
		w.harms()
	}
	w.store.outage++
	w.engine.after(d, func() { w.store.outage-- })
}

// CrashAgent kills a machine's agent, which starts again after a while.
func (w *World) CrashAgent(number int) {
	w.harms()
	if p := w.at(number).proc; p != nil {
		p.crash()
	}
}

// PauseAgent stops a machine's agent for a while.
func (w *World) PauseAgent(number int, d time.Duration) {
	w.harms()
	if p := w.at(number).proc; p != nil {
		w.faults.suspend(p, d)
	}
}

// PowerLoss takes a machine down for a while; for ever if that is 0.
func (w *World) PowerLoss(number int, away time.Duration) {
	w.harms()
	w.at(number).powerLoss(away)
}

// Cut puts a machine off the network, in both directions; Mend takes that back.
func (w *World) Cut(number int) {
	w.harms()
	for _, l := range w.at(number).links {
		l.block(towardMachine)
		l.block(towardScheduler)
	}
}

// Mend takes a Cut back.
func (w *World) Mend(number int) {
	for _, l := range w.at(number).links {
		l.unblock(towardMachine)
		l.unblock(towardScheduler)
	}
}

// CutOneWay stops what goes to a machine, or what comes from it, for a while.
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

// Lose makes the network lose every letter of which the script says so; nil ends it.
func (w *World) Lose(lost func(Letter) bool) {
	w.lose = lost
	w.harms()
}

// harms notes that this world loses words, so that nobody expects what only a
// world without faults can promise.
func (w *World) harms() {
	w.faults.byName["script"] = &moment{site: &site{name: "script"}}
}

// Hostile makes the network lose, double and delay letters; zeros make it kind again.
func (w *World) Hostile(drop, double, late float64, lateMost time.Duration) {
	w.hostile = nil
	if drop+double+late > 0 {
		w.harms()
		w.hostile = &hostility{drop: drop, double: double, late: late, lateMost: lateMost}
	}
}

// BreakDisk makes a machine's disk fail, or be full, for a while.
func (w *World) BreakDisk(number int, full bool, d time.Duration) {
	m := w.at(number)
	m.disk.failing, m.disk.full = w.engine.now.plus(d), full
}

// StallDisk has a machine's disk answer nothing for a while.
func (w *World) StallDisk(number int, d time.Duration) {
	w.at(number).disk.stalled = w.engine.now.plus(d)
}

// TearDisk damages what is on a machine's disk. The agent sees it when it next starts.
func (w *World) TearDisk(number int) {
	w.harms()
	w.at(number).tear()
}

// MendGPU makes a device well again.
func (w *World) MendGPU(number, device int) {
	m := w.at(number)
	m.launcher.mend(m.announcement.Gpus[device].Id)
}

// FaultGPU breaks a device until it is mended.
func (w *World) FaultGPU(number, device int) {
	m := w.at(number)
	m.launcher.fault(m.announcement.Gpus[device].Id)
}

// Ail has a machine be not well, or well again: its next check finds that.
func (w *World) Ail(number int, ails bool) { w.at(number).ails = ails }

// Clone starts a second machine from a copy of a machine's disk, under its name.
func (w *World) Clone(number int) {
	w.harms()
	w.clones = append(w.clones, w.at(number).clone())
}

// Arm makes a fault that strikes by chance strike at the next opportunities, as many as are asked for: "launch-fail",
// "prepare-hang", "store-error" and their like.
func (w *World) Arm(site string, times int) {
	known := siteNamed(site)
	if known == nil || known.act != nil {
		panic("there is no fault that strikes by chance named " + site)
	}
	armed := *known
	armed.few = times
	w.faults.byName[site] = &moment{site: &armed, eager: true}
}

// BreakJob makes a job's actor panic at the next message to it, before it has done anything about it.
func (w *World) BreakJob(o *Order) {
	w.harms()
	w.Arm("actor-break", 1)
	w.breaking = &breaking{kind: actors.KindJob, only: actors.JobPath(topology.JobID(o.id)), jobs: map[string]int{}}
}

// Processes are the containers that run on a machine, as "job/rank", in the
// order in which they came.
func (w *World) Processes(number int) []string {
	var out []string
	for _, t := range w.at(number).launcher.order {
		if t.state == taskRunning {
			out = append(out, fmt.Sprintf("%s/%d", t.job, t.key.Rank))
		}
	}
	return out
}

// Ledger is a machine's books; nil while its agent is down. Read only.
func (w *World) Ledger(number int) *topology.Ledger {
	if p := w.at(number).proc; p != nil && p.node != nil {
		return p.node.Ledger()
	}
	return nil
}

// UIDs returns the uids of the leaders' range that own files on a node.
func (w *World) UIDs(number int) []uint32 { return w.at(number).launcher.uids() }

// NodeState is a Node's place in its table; "down" while its agent is.
func (w *World) NodeState(number int) string {
	if p := w.at(number).proc; p != nil && p.node != nil {
		return p.node.State()
	}
	return "down"
}

// RequestID is the client's name for the request.
func (o *Order) RequestID() string { return o.requestID }

// Element returns one element of an ordered array as a job.
func (o *Order) Element(index string) *Order {
	return &Order{requestID: o.requestID, owner: o.owner, spec: o.spec, id: o.id + "_" + index}
}

// ID is that of the job; empty until it was acknowledged.
func (o *Order) ID() string { return o.id }

// Refused reports whether the job was turned down.
func (o *Order) Refused() bool { return o.refused }

// Stored is the job's record as it is on the leader's disk; nil if it is not there.
func (w *World) Stored(o *Order) *messages.JobRecord {
	if page := w.books.jobs[o.id]; page != nil {
		return page.record
	}
	return nil
}

// Attempts are all that were committed for the job, in that order, until it is over and all its evidence is in.
func (w *World) Attempts(o *Order) []*messages.AttemptRecord {
	if page := w.books.jobs[o.id]; page != nil {
		return w.books.attemptsOf(page)
	}
	return nil
}

// Attempt is the job's latest committed attempt; nil if there is none, or once
// the job is over and all its evidence is in.
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

// OnLetter hands a script every message that is put on its way.
func (w *World) OnLetter(told func(Letter)) { w.onLetter = told }

// Deliver hands a letter to whoever answers to its address now, however old it is.
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

// Script is the command of a task that runs for a while and then exits with a code.
func Script(run time.Duration, exit int32) []string {
	return script{run: run, exit: exit, rank: -1}.command()
}

// Finish ends all faults, waits until every job is over and all is at rest, and
// answers what was found on the way.
func (w *World) Finish() []Violation {
	w.heal()
	w.settle()
	w.rest()
	return w.violations
}
