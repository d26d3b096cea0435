package sim

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/leader/scheduler"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/cluster/lease"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns one simulated operating system process: its actor system and
// the ports through which its actors reach the simulated world. A crash drops
// the whole of it; what comes back is another process at the same address.

// process is one start of a scheduler or of a machine's agent.
type process struct {
	w       *World
	address string
	serial  int // among all processes of the run, for people to tell starts apart
	system  *actor.ActorSystem
	clock   clock
	dead    bool
	slow    []slowness // of its actors
	old     bool       // of the version before
	paused  bool
	// coordinators counts those that were made, by path: a recreated one starts from nothing.
	coordinators map[string]int
	parked       []*mailbox // ready ones that wait for the process to go on
	timers       int        // that have not fired
	lasting      []*mailbox // of the actors that live as long as it does
	peers        map[topology.NodeID]*actor.PID

	machine     *machine // of an agent
	incarnation *messages.Incarnation
	node        *worker.Node
	host        *schedulerHost // of a scheduler
	leader      *scheduler.Scheduler
	mirror      *mirror.Mirror
	epoch       uint64                    // under which it leads; 0: it stands by
	campaign    *campaign                 // nil where nobody else may lead
	drafts      map[topology.Token]handed // of each write that is not yet durable
	// deposedAt is when the store first told it that it no longer leads.
	deposedAt instant
}

func (w *World) newProcess(address string, c clock) *process {
	w.processes++
	p := &process{w: w, coordinators: map[string]int{}, address: address, serial: w.processes, clock: c}
	p.system = newSystem(address, p.route)
	return p
}

// route is where every message to another address goes.
func (p *process) route(*actor.PID) (actor.Process, bool) { return (*remote)(p), true }

// holder names the process in the store, and no other one.
func (p *process) holder() lease.Holder {
	return lease.Holder{Address: p.address, Process: fmt.Sprint(p.serial)}
}

// pause is SIGSTOP: messages and timers pile up.
func (p *process) pause() { p.paused = true }

// proceed is SIGCONT.
func (p *process) proceed() {
	p.paused = false
	if p.deposedAt > 0 {
		p.deposedAt = p.w.engine.now // it reads that only now
	}
	for _, box := range p.parked {
		box.wake()
	}
	p.parked = nil
	if p.campaign != nil {
		p.campaign.proceed()
	}
}

// crash is kill -9. Its mailboxes and timers see the mark and do nothing more.
func (p *process) crash() {
	p.dead = true
	p.parked = nil
	p.w.processGone(p)
}

// tell posts a message to one of the process's actors from outside of any actor.
func (p *process) tell(to *actor.PID, message any) {
	if !p.dead && to != nil {
		p.system.Root.Send(to, message)
	}
}

// handed is when a Job handed a write to the Journal, and when the word reached it on which it did.
type handed struct{ at, heard instant }

// draft notes when a leader decides: its write may become durable much later, and what its wall clock says proves
// nothing.
func (p *process) draft(message any) {
	write, is := message.(protocol.Write)
	job := p.w.current
	if !is || write.Change.Job == nil || job == nil || !p.w.checking {
		return
	}
	now := p.w.engine.now
	if p.drafts == nil {
		p.drafts = map[topology.Token]handed{}
	}
	drafted := handed{now, job.handled}
	if write.Change.Job.Revision == 1 || write.Change.Job.Promise != nil {
		p.drafts[messages.FromToken(write.Change.Job.WrittenBy)] = drafted
	}
	if len(write.Change.Attempts) == 0 {
		if write.Change.Job.Promise != nil {
			p.w.seen(Event{Kind: Drafted, Process: p, Draft: &write.Change, Since: job.handled})
		}
		return
	}
	since := now
	if job.answered {
		since = job.drafted
	}
	job.drafted = now
	p.drafts[messages.FromToken(write.Change.Job.WrittenBy)] = drafted
	p.w.seen(Event{Kind: Drafted, Process: p, Draft: &write.Change, Since: since})
}

// observed reports whether the checkers look at each message of such an actor.
func (p *process) observed(kind actors.Kind) bool { return kind == actors.KindNode && p.w.checking }

// Props gives an actor its simulated mailbox, and keeps sight of the actors
// that hold what the invariants are about.
func (p *process) Props(kind actors.Kind, make actor.Producer) *actor.Props {
	producer := make
	switch kind {
	case actors.KindNode:
		producer = func() actor.Actor {
			made := make()
			p.node, _ = made.(*worker.Node)
			return made
		}
	case actors.KindMirror:
		producer = func() actor.Actor {
			made := make()
			p.mirror, _ = made.(*mirror.Mirror)
			return made
		}
	case actors.KindScheduler:
		producer = func() actor.Actor {
			made := make()
			p.leader, _ = made.(*scheduler.Scheduler)
			// It has no mailbox yet: the links are told of when it has.
			p.w.engine.after(0, func() { p.host.tellLinks(p) })
			return made
		}
	}
	mailboxOf := func() actor.Mailbox { return &mailbox{proc: p, kind: kind} }
	return actor.PropsFromProducer(producer, actor.WithMailbox(mailboxOf), actor.WithDispatcher(idleDispatcher{}))
}

// Panicked ends the run: a broken invariant in an actor is a bug, wherever; but
// not where the run itself broke the actor.
func (p *process) Panicked(who *actor.PID, reason any, fatal bool) {
	if isBroken(reason) {
		if fatal && !p.dead {
			p.crash()
		}
		return
	}
	p.w.violate("panic", "%s%s: %v", who.GetAddress()+"/", who.GetId(), reason)
}

// Deposed crashes the process at once: it no longer leads.
func (p *process) Deposed(epoch uint64) {
	if p.dead {
		return
	}
	p.w.note(p, "deposed of epoch %d", epoch)
	p.crash()
	p.w.count("deposed", 1)
}

// Moved counts the steps of state machines, to show which were ever taken.
func (p *process) Moved(kind actors.Kind, from, event, to string) {
	step := Taken{kind, from, event, to}
	p.w.edges[step]++
	if p.w.meetings != nil {
		p.w.meet(step)
	}
}

// Count adds to a counter.
func (p *process) Count(name string, n int64) {
	if p.w.counters[name] += n; name == scheduler.CountLimitUIDs && p.w.checking {
		p.w.noteLacks(p)
	}
}

// Took does nothing: in a simulated world nothing takes the time that a real one would.
func (*process) Took(string, time.Duration) {}

// Now reads the process's monotonic clock.
func (p *process) Now() actors.Instant { return p.clock.read(p.w.engine.now) }

// WallMs reads its wall clock.
func (p *process) WallMs() int64 { return p.clock.wall(p.w.engine.now) }

// Info logs a line for operators.
func (p *process) Info(format string, args ...any) { p.w.logged(p, format, args) }

// Warn logs a warning.
func (p *process) Warn(format string, args ...any) { p.w.logged(p, actors.TagWarn+format, args) }

// Error logs an error.
func (p *process) Error(format string, args ...any) { p.w.logged(p, actors.TagError+format, args) }

// Debug logs a line that only somebody who debugs wants.
func (p *process) Debug(format string, args ...any) {
	if p.w.opts.Debug {
		p.w.logged(p, format, args)
	}
}

// template is the stock system that light ones are copied from: its logger and
// its parts that keep no state.
var template = sync.OnceValue(func() *actor.ActorSystem {
	config := actor.Configure(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.Level(100)}))
	}))
	return actor.NewActorSystemWithConfig(config)
})

// init: a registry of a simulated process holds a handful of actors: 1,024 times 32
// shards for each of ten thousand machines would take 29 GB.
func init() { cmap.SHARD_COUNT = 1 }

// newSystem builds an actor system from the library's exported fields. It takes
// 3.5 KB where a stock one takes 2.9 MB. It must never be shut down: it shares
// its stopper with the template.
func newSystem(address string, route actor.AddressResolver) *actor.ActorSystem {
	light := *template()
	system := &light
	system.ProcessRegistry = &actor.ProcessRegistryValue{
		ActorSystem: system,
		Address:     address,
		LocalPIDs:   &actor.SliceMap{LocalPIDs: []cmap.ConcurrentMap{cmap.New()}},
	}
	system.ProcessRegistry.RegisterAddressResolver(route)
	system.Root = actor.NewRootContext(system, actor.EmptyMessageHeader)
	system.Guardians = actor.NewGuardians(system)
	// NewDeadLetter subscribes handlers that log and throttle on the wall clock;
	// they are left on a stream that nobody publishes on.
	system.EventStream = eventstream.NewEventStream()
	system.DeadLetter = actor.NewDeadLetter(system)
	system.EventStream = eventstream.NewEventStream()
	system.EventStream.Subscribe(func(event any) { answerWatch(system, event) })
	return system
}

// answerWatch keeps the one promise of the stock dead letters that matters:
// who watches an actor that has gone is told so.
func answerWatch(system *actor.ActorSystem, event any) {
	letter, is := event.(*actor.DeadLetterEvent)
	if !is {
		return
	}
	watch, is := letter.Message.(*actor.Watch)
	if !is {
		return
	}
	if watcher, found := system.ProcessRegistry.Get(watch.Watcher); found {
		watcher.SendSystemMessage(watch.Watcher, &actor.Terminated{Who: letter.PID, Why: actor.TerminatedReason_NotFound})
	}
}
