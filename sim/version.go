package sim

import (
	"slices"

	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/published"
)

// This file simulates two versions side by side. A process of the previous version runs the same code, but it does not
// send, receive or store fields that were not published then. In such a world every process starts with the previous
// version and is upgraded one after the other. Sometimes one is downgraded.

// oldVersion returns the vocabulary of processes of the last version, or nil if the world has one version.
func (w *World) oldVersion() *published.Version {
	if w.old == nil && slices.Contains(w.draw.Faults, "upgrade") {
		w.old = published.Last()
		if w.opts.Published != "" {
			w.old = published.Parse(w.opts.Published)
		}
	}
	return w.old
}

// understands removes the fields that one end does not know from a message, and reports whether anything is left of it.
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

// wasOld reports whether a node's agent has been of the previous version since an instant, even briefly.
func (m *machine) wasOld(since instant) bool { return m.old || m.oldUntil > 0 && m.oldUntil >= since }

// oldLeads notes whether a process that takes over is of the previous version.
func (w *World) oldLeads(is bool) {
	if w.ledByOld && !is {
		w.oldLedUntil = w.engine.now
	}
	w.ledByOld = is
}

// lostWords reports whether a part of an agent's knowledge since an instant may be lost, because the agent or a leader
// was of the previous version.
func (w *World) lostWords(m *machine, since instant) bool {
	return m.wasOld(since) || w.ledByOld || w.oldLedUntil > 0 && w.oldLedUntil >= since
}

// lacks reports whether a process is of the previous version, which does not know a field of a message.
func (p *process) lacks(m messages.Message) bool {
	return p != nil && p.old && p.w.oldVersion().Strip(copyOf(m))
}

// asKept returns a ledger's record as a process of this version writes and reads it. A torn record stays as it is.
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
			w.note(h.proc, "ends for an upgrade: previous version=%t", h.old)
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
		w.note(m.proc, "ends for an upgrade: previous version=%t", m.old)
		m.proc.crash()
		done = true
	}
	return done
}
