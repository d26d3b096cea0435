package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file defines snares, which act at a certain message about a gang instead of a certain time, so that every step
// of the protocol is covered.

// snare waits for a number of messages about one job, or about any job.
type snare struct {
	job  string
	left int
	do   func()
}

func (w *World) snare(job string, letters int, do func()) {
	w.snares = append(w.snares, snare{job, letters, do})
}

// jobOf returns the job that a message of the gang protocol is about, or an empty string for other messages.
func jobOf(message messages.Message) string {
	switch m := message.(type) {
	case command:
		return m.GetOrder().GetJob()
	case interface{ GetOrigin() *messages.Origin }:
		return m.GetOrigin().GetJob()
	}
	return ""
}

// snap shows a message that is being sent to the snares. They act a little later, never during an actor's step.
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
