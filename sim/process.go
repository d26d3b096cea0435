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

// This file simulates one operating system process: its actor system and the ports through which its actors reach the
// simulated world. A crash drops all of it. The successor is another process at the same address.

// process is one start of a scheduler or of a node's agent.
type process struct {
	w       *World
	address string
	serial  int // unique in the run, so that developers can tell starts apart
	system  *actor.ActorSystem
	clock   clock
	dead    bool
	slow    []slowness // slowness of its actors
	old     bool       // of the previous version
	paused  bool
	// coordinators counts the created Coordinators by path. A recreated one starts without state.
	coordinators map[string]int
	parked       []*mailbox // ready mailboxes that wait until the process continues
	timers       int        // timers that have not fired
	lasting      []*mailbox // mailboxes of the actors that last as long as the process
	peers        map[topology.NodeID]*actor.PID

	machine     *machine // node of an agent
	incarnation *messages.Incarnation
	node        *worker.Node
	host        *schedulerHost // host of a scheduler
	leader      *scheduler.Scheduler
	mirror      *mirror.Mirror
	epoch       uint64                    // the epoch under which it leads; 0: it stands by
	campaign    *campaign                 // nil if no other process may lead
	drafts      map[topology.Token]handed // by each write that is not yet durable
	// deposedAt is when the store first answered that the process no longer leads.
	deposedAt instant
}

func (w *World) newProcess(address string, c clock) *process {
	w.processes++
	p := &process{w: w, coordinators: map[string]int{}, address: address, serial: w.processes, clock: c}
	p.system = newSystem(address, p.route)
	return p
}

// route sends every message to another address through the simulated network.
func (p *process) route(*actor.PID) (actor.Process, bool) { return (*remote)(p), true }

// holder returns a name for the process in the store that no other process has.
func (p *process) holder() lease.Holder {
	return lease.Holder{Address: p.address, Process: fmt.Sprint(p.serial)}
}

// pause simulates SIGSTOP: messages and timers accumulate.
func (p *process) pause() { p.paused = true }

// proceed simulates SIGCONT.
func (p *process) proceed() {
	p.paused = false
	if p.deposedAt > 0 {
		p.deposedAt = p.w.engine.now // the process reads that answer only now
	}
	for _, box := range p.parked {
		box.wake()
	}
	p.parked = nil
	if p.campaign != nil {
		p.campaign.proceed()
	}
}

// crash simulates kill -9. The process's mailboxes and timers see the mark and do nothing more.
func (p *process) crash() {
	p.dead = true
	p.parked = nil
	p.w.processGone(p)
}

// tell posts a message to an actor of the process from outside of any actor.
func (p *process) tell(to *actor.PID, message any) {
	if !p.dead && to != nil {
		p.system.Root.Send(to, message)
	}
}

// handed holds when a Job passed a write to the Journal, and when the Job received the message that caused it.
type handed struct{ at, heard instant }

// draft notes when a leader decides. Its write may become durable much later, and its wall clock proves nothing.
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

// Props gives an actor its simulated mailbox, and registers the actors that the invariants examine.
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
			// It has no mailbox yet, so the links are reported afterwards.
			p.w.engine.after(0, func() { p.host.tellLinks(p) })
			return made
		}
	}
	mailboxOf := func() actor.Mailbox { return &mailbox{proc: p, kind: kind} }
	return actor.PropsFromProducer(producer, actor.WithMailbox(mailboxOf), actor.WithDispatcher(idleDispatcher{}))
}

// Panicked ends the run, because a broken invariant in any actor is a bug. A panic that the run itself injected is no
// bug.
func (p *process) Panicked(who *actor.PID, reason any, fatal bool) {
	if isBroken(reason) {
		if fatal && !p.dead {
			p.crash()
		}
		return
	}
	p.w.violate("panic", "%s%s: %v", who.GetAddress()+"/", who.GetId(), reason)
}

// Deposed crashes the process at once, because it no longer leads.
func (p *process) Deposed(epoch uint64) {
	if p.dead {
		return
	}
	p.w.note(p, "no longer leads in epoch %d", epoch)
	p.crash()
	p.w.count("deposed", 1)
}

// Moved counts the steps of state machines, to show which steps were taken.
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

// Took does nothing, because a simulated step takes no real time.
func (*process) Took(string, time.Duration) {}

// Now reads the process's monotonic clock.
func (p *process) Now() actors.Instant { return p.clock.read(p.w.engine.now) }

// WallMs reads the process's wall clock.
func (p *process) WallMs() int64 { return p.clock.wall(p.w.engine.now) }

// Info logs a line for operators.
func (p *process) Info(format string, args ...any) { p.w.logged(p, format, args) }

// Warn logs a warning.
func (p *process) Warn(format string, args ...any) { p.w.logged(p, actors.TagWarn+format, args) }

// Error logs an error.
func (p *process) Error(format string, args ...any) { p.w.logged(p, actors.TagError+format, args) }

// Debug logs a line for debugging.
func (p *process) Debug(format string, args ...any) {
	if p.w.opts.Debug {
		p.w.logged(p, format, args)
	}
}

// template is the stock system from which small systems are copied: its logger and its stateless parts.
var template = sync.OnceValue(func() *actor.ActorSystem {
	config := actor.Configure(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.Level(100)}))
	}))
	return actor.NewActorSystemWithConfig(config)
})

// init reduces the shards of a registry, because a simulated process has few actors. With 1,024 times 32 shards each,
// ten thousand nodes would take 29 GB.
func init() { cmap.SHARD_COUNT = 1 }

// newSystem builds an actor system from the library's exported fields. It takes 3.5 KB instead of 2.9 MB for a stock
// one. It must never be shut down, because it shares its stopper with the template.
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
	// NewDeadLetter subscribes handlers that log and throttle by the wall clock. They stay on a stream on which
	// nothing is published.
	system.EventStream = eventstream.NewEventStream()
	system.DeadLetter = actor.NewDeadLetter(system)
	system.EventStream = eventstream.NewEventStream()
	system.EventStream.Subscribe(func(event any) { answerWatch(system, event) })
	return system
}

// answerWatch keeps the one necessary function of the stock dead letters: an actor that watches a stopped actor is
// notified.
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
