package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// behindStops is S18: once a machine has told a leader of an attempt that the
// store has lost, that leader admits nothing. Until the operator gives up what
// was lost, no such attempt is stopped or forgotten.
type behindStops struct {
	notQuiet
	told  map[int]instant // by process: when a machine with something lost was welcomed
	since map[int]instant // … when it was first seen to admit nothing
	tried map[topology.Token]bool
}

func newBehindStops() *behindStops {
	return &behindStops{told: map[int]instant{}, since: map[int]instant{}, tried: map[topology.Token]bool{}}
}

func (*behindStops) Name() string         { return "S18 behind-stops" }
func (*behindStops) Watches() []EventKind { return []EventKind{Sent, Scanned} }

func (c *behindStops) Step(w *World, e *Event) {
	if e.Kind == Scanned {
		c.onScanned(w)
		return
	}
	switch m := e.Message.(type) {
	case *messages.Reserve:
		c.onReserve(w, e.Process, m.Order)
	case *messages.Stop:
		c.spares(w, e.Message, m.Order)
	case *messages.Forget:
		c.spares(w, e.Message, m.Order)
	case *messages.Report:
		c.onTold(w, e, m.Ledger)
	case *messages.Heartbeat:
		c.onTold(w, e, m.Ledger)
	}
}

// onTold: who is welcome tells of something lost. What is not heard is told again.
func (c *behindStops) onTold(w *World, e *Event, l *messages.LedgerReport) {
	p := w.leader()
	if p == nil || e.To == nil || e.To.proc != p || c.told[p.serial] > 0 {
		return
	}
	for _, sl := range l.GetSlices() {
		if w.unknown(sl) {
			c.told[p.serial] = w.engine.now
		}
	}
}

// onScanned looks whether a leader that was told has understood. The store may
// have to be asked first, and a word may be lost until all is healed.
func (c *behindStops) onScanned(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil {
		return
	}
	if p.leader.Behind() != "" {
		if c.since[p.serial] == 0 {
			c.since[p.serial] = w.engine.now
		}
		return
	}
	if p.paused || p.host.cut > 0 || w.store.outage > 0 || w.store.stalled > 0 || !w.calmButStore() {
		delete(c.told, p.serial)
		return
	}
	if at := c.told[p.serial]; at > 0 && w.engine.now.since(at) > 5*time.Second {
		w.violate(c.Name(), "%s was told at %s of an attempt that the store has lost, and goes on", p.address, clockFace(at))
	}
}

func (c *behindStops) onReserve(w *World, p *process, o *messages.Order) {
	t := messages.FromToken(o.Token)
	first := !c.tried[t]
	c.tried[t] = true
	if at := c.since[p.serial]; first && at > 0 && w.engine.now.since(at) > time.Second {
		w.violate(c.Name(), "%s admits %s since %s, although the store is behind its machines", p.address, o.Job, clockFace(at))
	}
}

func (c *behindStops) spares(w *World, m messages.Message, o *messages.Order) {
	if t := messages.FromToken(o.Token); w.loss.tokens[t] && t.Epoch > w.loss.accepted {
		w.violate(c.Name(), "%s was sent about an attempt that the store has lost, and nobody has given it up", describe(m))
	}
}

// calmButStore tells whether no word is lost in this run but by schedulers that
// are ended with their store.
func (w *World) calmButStore() bool {
	for _, m := range w.faults.active {
		if !m.site.calm && m.site.name != "store-restored" && m.site.name != "store-tail" {
			return false
		}
	}
	return true
}
