package job

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns what a Job does with the end of another that it waits for.

// onForegone notes how a job has ended that this one waits for.
func (j *Job) onForegone(ctx actor.Context, m protocol.Foregone) {
	_, known := j.rec.KnownOf(m.Known.Job)
	if known || slices.ContainsFunc(j.foregone, func(k *messages.AfterKnown) bool { return k.Job == m.Known.Job }) {
		return
	}
	j.foregone = append(j.foregone, m.Known)
	j.advance(ctx)
}

// draftAfter puts into a write what has come in of the jobs that this one waits for.
func (j *Job) draftAfter(d *draft) {
	if len(j.foregone) > 0 && !d.rec.State.Terminal() {
		d.rec.AfterKnown = slices.Concat(d.rec.AfterKnown, j.foregone)
		d.foregone, d.dirty = len(j.foregone), true
	}
}
