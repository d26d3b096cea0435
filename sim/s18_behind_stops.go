package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// behindStops is S18. A leader stops all admissions once two enrolled nodes, or the only node, have reported attempts
// that the store has lost. A single report of many nodes proves nothing, but this node gets no work. No such attempt is
// stopped or forgotten until the operator gives it up. A leader without such reports, and without two reports of a
// higher epoch, continues.
type behindStops struct {
	rule
	told  map[int]instant // by process: when a node with a lost attempt was welcomed
	since map[int]instant // by process: when it was first seen to admit nothing
	tried map[topology.Token]bool

	enrolled map[int]map[string]bool // by process: the nodes in the store when it began to lead
	witness  map[int]map[*machine]instant
}

func newBehindStops() *behindStops {
	return &behindStops{rule: rule{"S18 behind-stops", on{Led, Sent, Scanned}},
		told: map[int]instant{}, since: map[int]instant{}, tried: map[topology.Token]bool{},
		enrolled: map[int]map[string]bool{}, witness: map[int]map[*machine]instant{}}
}

func (c *behindStops) Step(w *World, e *Event) {
	switch e.Kind {
	case Scanned:
		c.onScanned(w)
		return
	case Led:
		known := map[string]bool{}
		for id, n := range w.books.nodes { //order: each is only entered
			if n.Removed == nil {
				known[id] = true
			}
		}
		c.enrolled[e.Process.serial], c.witness[e.Process.serial] = known, map[*machine]instant{}
		return
	}
	switch m := e.Message.(type) {
	case *messages.Reserve:
		c.onReserve(w, e.Process, m.Order)
	case *messages.Stop, *messages.Forget:
		c.spares(w, e.Message, m.(command).GetOrder())
	case *messages.Report, *messages.Heartbeat:
		c.onTold(w, e, told(e.Message))
	}
}

// onTold notes that a welcomed node reports a lost attempt. A report that does not arrive is repeated.
func (c *behindStops) onTold(w *World, e *Event, l *messages.LedgerReport) {
	p := w.leader()
	if p == nil || e.To == nil || e.To.proc != p || c.told[p.serial] > 0 {
		return
	}
	from := e.Process.machine
	for _, sl := range l.GetSlices() {
		if w.unknown(sl) && c.enrolled[p.serial][string(from.id)] && c.witness[p.serial][from] == 0 {
			c.witness[p.serial][from] = w.engine.now
		}
	}
	if n := c.witnesses(w, p); n > 1 || n == 1 && len(c.enrolled[p.serial]) == 1 {
		c.told[p.serial] = w.engine.now
	}
}

// witnesses counts the nodes that have reported a lost attempt to a leader and still have it.
func (c *behindStops) witnesses(w *World, p *process) int {
	n := 0
	for _, m := range w.machines {
		if c.witness[p.serial][m] > 0 && c.still(w, m) {
			n++
		}
	}
	return n
}

// onScanned checks that a leader with reports has reacted. It may have to read the store first, and messages may be
// lost until all faults are repaired.
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
	if p.paused || p.host.cut > 0 || w.store.outage > 0 || w.store.stalled > w.engine.now || !w.calmButStore() {
		delete(c.told, p.serial)
		return
	}
	if at := c.told[p.serial]; at > 0 && w.engine.now.since(at) > 5*time.Second {
		c.violate(w, "%s learned at %s of an attempt that the store has lost, and continues", p.address, clockFace(at))
	}
}

func (c *behindStops) onReserve(w *World, p *process, o *messages.Order) {
	t := messages.FromToken(o.Token)
	first := !c.tried[t]
	c.tried[t] = true
	if m := w.machine(o.Node); m != nil && first && m.lies == nil {
		if at := c.witness[p.serial][m]; at > 0 && w.engine.now.since(at) > 5*time.Second && c.still(w, m) &&
			w.calmButStore() {
			c.violate(w, "%s asks %s for resources of job %s, although the node reported a lost attempt at %s",
				p.address, o.Node,
				o.Job, clockFace(at))
		}
	}
	if at := c.since[p.serial]; first && at > 0 && w.engine.now.since(at) > time.Second {
		c.violate(w, "%s has admitted job %s since %s, although its store is older than the nodes",
			p.address, o.Job, clockFace(at))
	}
}

// still reports whether a node still has an attempt that the store has lost.
func (c *behindStops) still(w *World, m *machine) bool {
	return slices.ContainsFunc(m.slices(), func(s *topology.Allocation) bool {
		return w.isLost(s.Token) && s.State > topology.AllocationReserved
	})
}

func (c *behindStops) spares(w *World, m messages.Message, o *messages.Order) {
	if w.isLost(messages.FromToken(o.Token)) && !w.books.gaveUp(o.Job) {
		c.violate(w, "%s was sent about an attempt that the store has lost and no operator has given up", describe(m))
	}
}

// calmButStore reports whether this run loses messages only by schedulers that end together with their store.
func (w *World) calmButStore() bool {
	return !slices.ContainsFunc(w.faults.active, func(m *moment) bool {
		return !m.site.calm && m.site.name != "store-restored" && m.site.name != "store-tail"
	})
}
