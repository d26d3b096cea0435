package storetest

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the cases about attempts: decisions never change.

func tryCommit(w *world) {
	j, a := w.running("j", 1, 5)
	b := commit("j", w.token(6))
	w.wrote("C", jobChange(w.active(j, b), b)) // the first is still open
	k := w.submit("k", 2)
	stolen := commit("k", w.token(5))
	w.wrote("D", jobChange(k))
	w.wrote("C", jobChange(w.active(k, stolen), stolen)) // a token names one attempt
	foreign := commit("k", w.token(7))
	w.wrote("C", jobChange(w.active(j, foreign), foreign)) // of another job
	over := attempt(a, ended(messages.Cause_CAUSE_MACHINE_LOST))
	queued := w.next(j, func(n *messages.JobRecord) { n.State = messages.JobState_JOB_STATE_QUEUED })
	w.wrote("D", jobChange(queued, over))
	w.wrote("C", jobChange(w.active(queued, foreign), foreign)) // and it does not become this job's either
	older := commit("j", w.token(4))
	w.wrote("C", jobChange(w.active(queued, older), older)) // tokens grow
	again := w.active(queued, b)
	w.wrote("D", jobChange(again, b))
	w.stored(again, over, b)
	bare, ghost := w.submit("l", 3), commit("l", topology.Token{})
	w.wrote("D", jobChange(bare))
	w.wrote("C", jobChange(w.active(bare, ghost), ghost))
	empty := commit("l", w.token(8))
	empty.Places = nil
	w.wrote("C", jobChange(w.active(bare, empty), empty))
	shared := commit("l", w.token(8))
	shared.Places[1].Node = "n0" // both ranks would have both GPUs completely
	w.wrote("C", jobChange(w.active(bare, shared), shared))
	both := attempt(b, ended(messages.Cause_CAUSE_REQUEUED))
	c := commit("j", w.token(9))
	last := w.active(again, c)
	w.wrote("D", jobChange(last, both, c)) // ENDED of one and COMMIT of the next in one transaction
	w.stored(last, over, both, c)
}

func tryDecision(w *world) {
	early := attempt(commit("e", w.token(1)), ended(messages.Cause_CAUSE_SUCCEEDED))
	e := w.submit("e", 1)
	w.wrote("D", jobChange(e))
	w.wrote("C", jobChange(w.active(e, early), early)) // ENDED before COMMIT
	gone := attempt(commit("e", w.token(1)), exited(0))
	w.wrote("C", jobChange(w.active(e, gone), gone)) // an exit before COMMIT

	j, a := w.running("j", 2, 2)
	for _, c := range []struct {
		name string
		edit func(*messages.AttemptRecord)
	}{
		{"another machine", func(a *messages.AttemptRecord) { a.Places[1].Node = "n9" }},
		{"its clone", func(a *messages.AttemptRecord) { a.Places[1].MachineId = "clone" }},
		{"another rank", func(a *messages.AttemptRecord) { a.Places[1].Rank = 5 }},
		{"one rank less", func(a *messages.AttemptRecord) { a.Places = a.Places[:1] }},
		{"another device", func(a *messages.AttemptRecord) { a.Places[0].Grant.Gpus[0].GpuId = "gpu-z" }},
		{"another amount", func(a *messages.AttemptRecord) { a.Places[0].Grant.Amount.MilliCpu = 1 }},
		{"another run", func(a *messages.AttemptRecord) { a.Run = 2 }},
	} {
		w.Log(c.name)
		w.wrote("C", jobChange(w.next(j, nil), attempt(a, c.edit)))
	}
	w.stored(j, a)

	unended := w.over(j, 10)
	w.wrote("C", jobChange(unended)) // finished, with an attempt that has not ended
	first := attempt(a, ended(messages.Cause_CAUSE_CANCELLED))
	k := w.next(j, nil)
	w.wrote("D", jobChange(k, first))
	w.wrote("C", jobChange(w.next(k, nil), attempt(a, ended(messages.Cause_CAUSE_SUCCEEDED))))
	w.wrote("C", jobChange(w.next(k, nil), a)) // an end that is taken back
	w.stored(k, first)
}

func tryEvidence(w *world) {
	j, a := w.running("j", 1, 1)
	one := attempt(a, exited(1))
	k := w.next(j, nil)
	w.wrote("D", jobChange(k, one))
	w.wrote("C", jobChange(w.next(k, nil), attempt(a, exited(0)))) // rank 1 would return
	all := attempt(a, exited(0, 1), ended(messages.Cause_CAUSE_SUCCEEDED))
	l := w.over(k, 10)
	w.wrote("D", jobChange(l, all))
	w.wrote("C", jobChange(w.next(l, nil), one))
	w.crash()
	w.stored(l, all)
}
