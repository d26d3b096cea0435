package sim

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// This file simulates the disk of a node. The disk holds one record, which each write replaces as a whole. After a
// crash, a write without an acknowledgement may be on the disk or not.

// disk outlives agents and boots.
type disk struct {
	w       *World
	content []byte
	pending []*saving // writes in the order of the requests
	last    instant   // when the latest write finishes; writes do not overtake each other
	stalled instant   // no write finishes before this
	failing instant   // until then every write fails …
	full    bool      // … because the disk is full, and not by an I/O error
	aside   int       // number of records that were put aside
	torn    bool      // the content was corrupted, and nobody has noticed yet
}

type saving struct {
	data []byte
	gone bool // the crash has decided about this write
}

func (d *disk) latency() instant {
	at := d.w.engine.now.plus(d.w.chance.between(50*time.Microsecond, 2*time.Millisecond))
	d.last = max(at, d.stalled, d.last+d.w.apart)
	return d.last
}

// crash decides which of the pending writes are on the disk: the first few.
func (d *disk) crash() {
	if len(d.pending) > 0 {
		kept := d.w.chance.below(len(d.pending) + 1)
		for i, s := range d.pending {
			s.gone = true
			if i < kept {
				d.content = s.data
			}
		}
		d.pending = nil
	}
}

// tear corrupts a node's record, as a power loss on a bad disk does.
func (m *machine) tear() bool {
	m.lossy = true
	return m.disk.tear()
}

func (d *disk) tear() bool {
	if len(d.content) < 8 {
		return false
	}
	torn := append([]byte(nil), d.content...)
	at := 1 + d.w.chance.below(len(torn)-1)
	torn[at] ^= 0xff
	if d.w.chance.chance(0.5) {
		torn = torn[:at]
	}
	d.content = torn
	d.torn = true
	return true
}

// diskPort is the disk as one agent reaches it.
type diskPort struct {
	d    *disk
	proc *process
}

// Load reads the record.
func (x *diskPort) Load(to *actor.PID) {
	x.d.w.engine.at(x.d.latency(), action(func() {
		x.proc.tell(to, actors.DiskLoaded{Data: x.proc.asKept(append([]byte(nil), x.d.content...))})
	}))
}

// Save replaces the record and answers when it is durable.
func (x *diskPort) Save(seq uint64, data []byte, to *actor.PID) {
	d := x.d
	s := &saving{data: x.proc.asKept(append([]byte(nil), data...))}
	d.pending = append(d.pending, s)
	d.w.writes++
	d.w.engine.at(d.latency(), action(func() {
		d.w.writes--
		if s.gone {
			return
		}
		d.pending = d.pending[1:]
		x.proc.tell(to, actors.DiskSaved{Seq: seq, Err: d.keep(s)})
	}))
}

// keep stores a record, or returns why it could not. After a failed fsync the record may be stored nevertheless.
func (d *disk) keep(s *saving) string {
	switch {
	case d.failing <= d.w.engine.now:
		d.content, d.torn = s.data, false
		return ""
	case d.full:
		return "no space left on device"
	case d.w.chance.chance(0.5):
		d.content, d.torn = s.data, false
	}
	return "input/output error"
}

// Quarantine puts the record aside for an operator.
func (x *diskPort) Quarantine() {
	x.d.content, x.d.torn = nil, false
	x.d.aside++
	x.d.w.seen(Event{Kind: Quarantined, Process: x.proc})
}
