// Package host runs actors in a real process: the goroutines of their mailboxes, the clock, the log, and the reaction
// to a broken invariant. It does not depend on what the actors do. Schedulers and node agents both use it.
package host

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// Host implements actors.Host and owns the actor system.
type Host struct {
	log    *Log
	ended  chan error
	once   sync.Once
	system *actor.ActorSystem
	pool   *workers
	asked  atomic.Uint64 // number of requests from outside, used in their names

	mu     sync.Mutex
	counts map[string]int64
	spans  map[string]*distribution
	boxes  map[actors.Kind][]actor.Mailbox // of the watched kinds
}

// New returns a process without actors.
func New(log *Log) *Host {
	h := &Host{
		log: log, ended: make(chan error, 1), pool: newWorkers(),
		counts: map[string]int64{}, spans: map[string]*distribution{},
		boxes: map[actors.Kind][]actor.Mailbox{},
	}
	// Messages to ended actors are counted and not logged. Some are normally still on their way.
	h.system = NewSystem(func() { h.Count("host.dead_letters", 1) })
	return h
}

// System returns the actor system of the process.
func (h *Host) System() *actor.ActorSystem { return h.system }

// Ended receives the reason why the process must end: a broken invariant, or lost leadership. The next start reads all
// state from disk.
func (h *Host) Ended() <-chan error { return h.ended }

func (h *Host) end(why error) { h.once.Do(func() { h.ended <- why }) }

// Props returns the Props of an actor in this process. They use the link's mailbox, because a message from a node may
// arrive while the actor is being created.
func (h *Host) Props(kind actors.Kind, produce actor.Producer) *actor.Props {
	guard := func() actor.Actor { return &guarded{host: h, kind: kind, inner: produce()} }
	return actor.PropsFromProducer(guard, actor.WithDispatcher(h.pool), actor.WithMailbox(h.mailboxOf(kind)))
}

// guarded logs the stack of a panic, because supervision gets only the reason. It also releases an ended actor: in
// Proto.Actor, a parent keeps the PIDs of ended children, which reference their actors.
type guarded struct {
	host  *Host
	kind  actors.Kind
	inner actor.Actor
}

// Receive passes the message to the inner actor.
func (g *guarded) Receive(ctx actor.Context) {
	defer func() {
		if reason := recover(); reason != nil {
			g.host.log.Info("BUG in %s %s: %v\non %T\n%s", g.kind, ctx.Self().Id, reason, ctx.Message(), debug.Stack())
			panic(reason)
		}
	}()
	g.inner.Receive(ctx)
	if _, ended := ctx.Message().(*actor.Stopped); ended {
		g.inner = nil
	}
}

// Panicked ends the process if its state may be wrong. Otherwise the actor has been stopped, and its parent recreates
// it from disk.
func (h *Host) Panicked(who *actor.PID, reason any, fatal bool) {
	h.Count("host.panics", 1)
	if fatal {
		h.end(fmt.Errorf("broken invariant in %s: %v", who.Id, reason))
	}
}

// Deposed ends the process, because another one leads.
func (h *Host) Deposed(epoch uint64) {
	h.end(fmt.Errorf("this scheduler no longer leads (its epoch was %d): another scheduler took over", epoch))
}

// Moved does nothing: only simulations need it.
func (h *Host) Moved(actors.Kind, string, string, string) {}

// Count adds to a counter.
func (h *Host) Count(name string, n int64) {
	h.mu.Lock()
	h.counts[name] += n
	h.mu.Unlock()
}

// silence drops the log lines of Proto.Actor. They concern dead letters, which are counted, and panics, which are
// logged with their stack.
func silence(*actor.ActorSystem) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}
