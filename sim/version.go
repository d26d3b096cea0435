package sim

import (
	"slices"

	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/published"
)

// This file owns worlds in which two versions run side by side. A process of the
// version before this one runs the same code, and neither says, hears nor keeps on
// its machine's disk what was not published then. In such a world everything
// begins old, and is restarted as new piece by piece; now and then one goes back.

// oldVersion returns the vocabulary of processes of the last version; nil: the world has one version.
func (w *World) oldVersion() *published.Version {
	if w.old == nil && slices.Contains(w.draw.Faults, "upgrade") {
		w.old = published.Last()
		if w.opts.Published != "" {
			w.old = published.Parse(w.opts.Published)
		}
	}
	return w.old
}

// understands takes away from a message what one end does not know, and reports
// whether anything is left of it.
func (p *process) understands(m messages.Message) bool {
	if p == nil || !p.old {
		return true
	}
	v := p.w.oldVersion()
	if !v.Knows(m) {
		p.w.count("version.unknown", 1)
		return false
	}
	if v.Strip(m) {
		p.w.count("version.stripped", 1)
	}
	return true
}

// wasOld reports whether a machine's agent has been of the version before since then, however short.
func (m *machine) wasOld(since instant) bool { return m.old || m.oldUntil > 0 && m.oldUntil >= since }

// oldLeads notes whether a process that takes over is of the version before.
func (w *World) oldLeads(is bool) {
	if w.ledByOld && !is {
		w.oldLedUntil = w.engine.now
	}
	w.ledByOld = is
}

// lostWords reports whether what a machine's agent has known since then may have been lost in part, because that agent
// or a leader was of the version before.
func (w *World) lostWords(m *machine, since instant) bool {
	return m.wasOld(since) || w.ledByOld || w.oldLedUntil > 0 && w.oldLedUntil >= since
}

// lacks reports whether a process is of the version before, to which something of a message is unknown.
func (p *process) lacks(m messages.Message) bool {
	return p != nil && p.old && p.w.oldVersion().Strip(copyOf(m))
}

// asKept is a ledger's record as a process of its version writes and reads it. One
// that is torn stays as it is.
func (p *process) asKept(data []byte) []byte {
	if !p.old || len(data) == 0 {
		return data
	}
	record, err := worker.DecodeRecord(data)
	if err != nil || !p.w.oldVersion().Strip(record) {
		return data
	}
	p.w.count("version.kept", 1)
	return worker.EncodeRecord(record)
}

// upgrade restarts a few processes as the other version.
func upgrade(f *faults) bool {
	w := f.w
	if w.luck.chance(0.3) {
		if h := w.schedulers[w.luck.below(len(w.schedulers))]; h.proc != nil && !h.proc.paused {
			h.old = !h.old && w.luck.chance(0.3)
			w.note(h.proc, "ends for an upgrade: old=%t", h.old)
			h.proc.crash()
			return true
		}
	}
	done := false
	for range w.luck.span(1, max(1, len(w.machines)/8)) {
		m := f.pick()
		if m == nil || m.proc == nil {
			continue
		}
		if m.old {
			m.oldUntil = w.engine.now
		}
		m.old = !m.old && w.luck.chance(0.15)
		w.note(m.proc, "ends for an upgrade: old=%t", m.old)
		m.proc.crash()
		done = true
	}
	return done
}
