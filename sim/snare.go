package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns snares: things that happen at a certain letter about a gang,
// rather than at a certain time, so that every step of the protocol is met.

// snare waits for a number of letters about one job, or about any.
type snare struct {
	job  string
	left int
	do   func()
}

func (w *World) snare(job string, letters int, do func()) {
	w.snares = append(w.snares, snare{job, letters, do})
}

// jobOf is the job that a letter of the gang protocol is about; empty for others.
func jobOf(message messages.Message) string {
	switch m := message.(type) {
	case command:
		return m.GetOrder().GetJob()
	case interface{ GetOrigin() *messages.Origin }:
		return m.GetOrigin().GetJob()
	}
	return ""
}

// snap lets the snares see a letter that is put on its way. What they do comes
// a little later: never in the middle of an actor's step.
func (w *World) snap(message messages.Message) {
	job := jobOf(message)
	if job == "" {
		return
	}
	kept := w.snares[:0]
	for _, s := range w.snares {
		if s.job == "" || s.job == job {
			s.left--
		}
		if s.left > 0 {
			kept = append(kept, s)
			continue
		}
		w.engine.after(w.luck.between(0, 400*time.Microsecond), s.do)
	}
	w.snares = kept
}
