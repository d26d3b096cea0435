// Package host is the process that the actors live in when they are not
// simulated: their mailboxes' goroutines, the clock, the log, and what happens
// when an actor finds an invariant broken. It knows nothing of what the actors
// do; a scheduler and a machine's agent live in the same kind of process.
package host

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
)

// Host implements actors.Host and owns the actor system.
type Host struct {
	log    *Log
	ended  chan error
	once   sync.Once
	system *actor.ActorSystem
	pool   *workers

	mu     sync.Mutex
	counts map[string]int64
}

// New makes a process without actors.
func New(log *Log) *Host {
	h := &Host{log: log, ended: make(chan error, 1), pool: newWorkers(), counts: map[string]int64{}}
	// What was sent to nobody is counted: that is part of life where actors end
	// while messages to them are on their way.
	h.system = NewSystem(func() { h.Count("host.dead_letters", 1) })
	return h
}

// System is where the process's actors live.
func (h *Host) System() *actor.ActorSystem { return h.system }

// Ended tells why the process must end by itself: an invariant that broke, or
// a leadership that was lost. It comes back from disk.
func (h *Host) Ended() <-chan error { return h.ended }

func (h *Host) end(why error) { h.once.Do(func() { h.ended <- why }) }

// Props are an actor's in this process. The mailbox is the link's, because a
// machine may speak to an actor in the moment of its birth.
func (h *Host) Props(kind actors.Kind, make actor.Producer) *actor.Props {
	guard := func() actor.Actor { return &guarded{host: h, kind: kind, inner: make()} }
	return actor.PropsFromProducer(guard, actor.WithDispatcher(h.pool), actor.WithMailbox(link.Mailbox))
}

// guarded logs the stack of a panic before supervision sees only its reason.
type guarded struct {
	host  *Host
	kind  actors.Kind
	inner actor.Actor
}

// Receive is the inner actor's.
func (g *guarded) Receive(ctx actor.Context) {
	defer func() {
		if reason := recover(); reason != nil {
			g.host.log.Info("BUG in %s %s: %v\non %T\n%s", g.kind, ctx.Self().Id, reason, ctx.Message(), debug.Stack())
			panic(reason)
		}
	}()
	g.inner.Receive(ctx)
}

// Panicked ends the process where the books may be wrong; else the actor has
// been stopped and is recreated from disk by its parent.
func (h *Host) Panicked(who *actor.PID, reason any, fatal bool) {
	h.Count("host.panics", 1)
	if fatal {
		h.end(fmt.Errorf("%s found an invariant broken: %v", who.Id, reason))
	}
}

// Deposed ends the process: somebody else leads.
func (h *Host) Deposed(epoch uint64) {
	h.end(fmt.Errorf("this scheduler no longer leads (its epoch was %d): another one took over", epoch))
}

// Moved is of interest to simulations only.
func (h *Host) Moved(actors.Kind, string, string, string) {}

// Count adds to a counter.
func (h *Host) Count(name string, n int64) {
	h.mu.Lock()
	h.counts[name] += n
	h.mu.Unlock()
}

// silence keeps the library's own log lines out: they tell of dead letters,
// which are counted, and of panics, which are logged with their stack.
func silence(*actor.ActorSystem) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}
