package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file draws jobs that restart in place. It draws no random numbers, so all other jobs stay the same.

// staysInPlace makes every second job restart in place. In half of these, a rank fails in the first attempts.
func (w *World) staysInPlace(spec *messages.JobSpec, run *script) {
	n := len(w.client.jobs)
	if !w.opts.InPlace || n%2 != 0 || spec.GetRestart().GetNever() {
		return
	}
	spec.Restart.InPlace = true
	spec.Restart.InPlaceGraceMs = int64(n/2%3) * 700 // 0: the default
	spec.Restart.Limit = max(spec.Restart.Limit, 1+int32(n/8%3))
	if n%4 == 0 && run.exit == 0 {
		run.exit, run.rank, run.runs = int32(1+n/4%3), int32(n/12%3), int32(1+n/4%2)
	}
}

// holdsSpares gives spares to half of the gangs that restart in place, if they are small enough for the world.
func (w *World) holdsSpares(spec *messages.JobSpec) {
	n := len(w.client.jobs)
	if tasks := spec.GetGang().GetReplicasMin(); spec.GetRestart().GetInPlace() && spec.Each != nil && tasks > 1 &&
		n%4 == 0 && int(tasks)+2 < len(w.machines) {
		spec.Restart.Spares = 1 + int32(n/4%2)
	}
}

// isNewOn reports whether an attempt did not get its place on a node from the attempt before.
func isNewOn(a *messages.AttemptRecord, node string) bool {
	return a.Inherited == nil ||
		slices.ContainsFunc(a.Inherited.Swapped, func(s *messages.Swapped) bool { return s.By == node })
}
