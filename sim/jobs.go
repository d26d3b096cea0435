package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file draws the job mix: which jobs arrive, when, and what clients then do with them.

// arrive schedules every job of the run. Some arrive right after each other, because concurrent attempts meet states
// that sequential ones do not.
func (w *World) arrive() {
	var at time.Duration
	for i := range w.draw.Gangs + w.draw.Small {
		gang := i < w.draw.Gangs
		if at == 0 || w.jobs.chance(0.6) {
			at = w.jobs.between(3*time.Second, w.draw.Load)
		} else {
			at += w.jobs.between(0, 2*time.Millisecond)
		}
		w.engine.after(at, func() { w.submitDrawn(gang) })
	}
}

func (w *World) submitDrawn(gang bool) {
	spec := w.smallSpec()
	if gang {
		spec = w.gangSpec()
	}
	switch len(w.client.jobs) % 8 {
	case 3:
		spec.User = "ann" // some jobs name a user
	case 7:
		spec.User = "root" // root of their containers
	}
	if len(w.client.jobs)%16 == 11 { // without drawing a random number
		spec.BeginUnixMs = w.momentIn(w.draw.LongestRun / 2)
	}
	if len(w.client.jobs)%16 == 13 && spec.TimeLimitMs > 0 { // also without one
		spec.DeadlineUnixMs = w.momentIn(w.draw.LongestRun) + spec.TimeLimitMs
	}
	w.follows(spec)
	if !gang {
		w.sweeps(spec)
	}
	o := w.client.submitAs(w.whose(), spec, false)
	s, later := w.jobs, w.later
	switch {
	case s.chance(0.06):
		later(s.skewed(time.Millisecond, 2*w.draw.LongestRun), func() { w.client.cancel(o) })
	case s.chance(0.1):
		// At each step of a gang's life its client may cancel it.
		o.snared, o.steps = w.client.cancel, 1+s.below(30)
	case len(w.client.jobs)%16 == 5:
		// In each run some clients hold, release, and hold again.
		o.steps = 1 + s.below(12)
		o.snared = func(o *Order) {
			for i := range 1 + s.below(4) {
				later(s.skewed(0, 4*time.Millisecond), func() { w.client.hold(o, i%2 == 1) })
			}
			later(s.skewed(time.Second, w.draw.LongestRun), func() { w.client.hold(o, true) })
		}
	case len(w.client.jobs)%16 == 13:
		w.changeMinds(o, later)
	case s.chance(0.08):
		o.steps = 1 + s.below(30)
		o.snared = func(o *Order) {
			w.client.hold(o, false)
			later(w.draw.LongestRun/2, func() { w.client.hold(o, true) })
		}
	case s.chance(0.03):
		later(s.skewed(time.Millisecond, w.draw.LongestRun), func() { w.client.requeueAnd(o, true) })
		later(w.draw.LongestRun+s.between(0, w.draw.LongestRun), func() { w.client.hold(o, true) })
	case s.chance(0.05):
		later(s.skewed(time.Millisecond, w.draw.LongestRun), func() { w.client.hold(o, false) })
		later(w.draw.LongestRun+s.between(0, w.draw.LongestRun), func() { w.client.hold(o, true) })
	case s.chance(0.05):
		later(s.skewed(time.Millisecond, 2*w.draw.LongestRun), func() { w.client.requeue(o) })
	case s.chance(0.05):
		o.snared, o.steps = w.client.requeue, 1+s.below(30)
	}
	if s.chance(0.08) {
		// The client repeats a request whose answer was lost.
		later(s.skewed(time.Millisecond, w.draw.LongestRun), func() { w.client.order(o) })
	}
}

// follows makes some jobs follow one or two earlier jobs, without drawing a random number.
func (w *World) follows(spec *messages.JobSpec) {
	n := len(w.client.jobs)
	if n%8 != 4 || w.oldVersion() != nil {
		return
	}
	for i := range 1 + n/8%2 {
		if o := w.client.jobs[n-1-2*i]; o.id != "" {
			spec.After = append(spec.After, &messages.After{Job: o.id, End: messages.AfterEnd((n/8 + i) % 5)})
		}
	}
}

// sweeps makes some jobs arrays of a few elements, without drawing a random number.
func (w *World) sweeps(spec *messages.JobSpec) {
	n := len(w.client.jobs)
	if n%16 != 2 || w.oldVersion() != nil {
		return
	}
	spec.Array = &messages.ArraySpec{
		Indices: []*messages.IndexRange{
			{First: int32(n % 3), Last: int32(n%3 + 4 + n/16%12)}, {First: 100, Last: 104, Step: 2},
		},
		Most: int32(n / 16 % 4),
	}
}

// changeMinds makes some clients change the priority, the time limit or the begin time of their job.
func (w *World) changeMinds(o *Order, later func(time.Duration, func())) {
	s := w.jobs
	for i := range 1 + s.below(4) {
		q := &messages.Update{SetPriority: i != 1, SetTimeLimit: i > 0, Priority: int32(s.below(5)),
			TimeLimitMs: s.skewed(time.Second, 2*w.draw.LongestRun).Milliseconds()}
		later(s.skewed(time.Second, w.draw.LongestRun), func() {
			if q.SetBegin = i == 3; q.SetBegin {
				q.BeginUnixMs = w.momentIn(w.draw.LongestRun / 2)
			}
			w.client.update(o, q)
		})
	}
}

// momentIn returns a time of day by an undisturbed wall clock.
func (w *World) momentIn(d time.Duration) int64 {
	return WallBeganMs + (w.engine.now.duration() + d).Milliseconds()
}

// submitUnwanted submits a long job and cancels it while it runs, because some faults strike only a task that is
// stopped. A job that has not started in time is cancelled while it waits.
func (w *World) submitUnwanted() {
	spec := w.smallSpec()
	spec.Command, spec.Script = Script(2*w.draw.LongestRun, 0), nil
	spec.Priority = 9 // above every drawn priority
	o := w.client.submit(spec)
	last := w.engine.now.plus(w.draw.LongestRun)
	var look func()
	look = func() {
		if w.engine.now >= last || w.runs(o) {
			w.client.cancel(o)
			return
		}
		w.engine.after(time.Second, look)
	}
	w.engine.after(w.jobs.skewed(time.Second, w.draw.LongestRun), look)
}

// runs reports whether a process of a job exists.
func (w *World) runs(o *Order) bool {
	for _, m := range w.machines {
		for _, t := range m.launcher.order {
			if t.state == taskRunning && t.job == o.id {
				return true
			}
		}
	}
	return false
}

// baseSpec returns the common part of all jobs with this longest run time.
func (w *World) baseSpec(longest time.Duration) *messages.JobSpec {
	s := w.jobs
	run := script{run: s.skewed(time.Second, longest), rank: -1}
	spec := &messages.JobSpec{
		Name: fmt.Sprintf("job-%d", len(w.client.jobs)+1), Queue: "default", Priority: int32(s.below(3)), Image: "host",
		Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
		Stop: &messages.StopSpec{
			GraceMs: s.between(time.Second, 12*time.Second).Milliseconds(),
			Signal:  int32(10 + 2*(len(w.client.jobs)%2)), // chosen per job without drawing a random number
		},
		Restart: &messages.RestartSpec{Limit: int32(s.below(3)), BackoffMs: int64(s.below(3000))},
		// A prepare that hangs is noticed within the run.
		PrepareTimeoutMs: s.between(20*time.Second, time.Minute).Milliseconds(),
	}
	if len(w.client.jobs)%3 == 0 {
		spec.GpuType = "H100" // the type of all nodes; no random number is drawn
	}
	if len(w.client.jobs)%8 == 3 { // no random number is drawn
		spec.Exclude = []string{string(w.machines[len(w.client.jobs)%len(w.machines)].id)}
	}
	if len(w.client.jobs)%8 == 6 { // no random number is drawn
		spec.Restart = &messages.RestartSpec{Never: true}
	}
	if len(w.client.jobs)%8 == 5 {
		spec.Network = messages.Network_NETWORK_NONE
	}
	switch {
	case s.chance(0.06):
		run.exit, run.rank, run.runs = int32(1+s.below(3)), 0, int32(s.below(3))
	case s.chance(0.03):
		run.oom = true
	case s.chance(0.06):
		run.deaf = true
	case s.chance(0.2):
		run.saves = true
	}
	if s.chance(0.1) {
		spec.TimeLimitMs = (run.run/2 + s.between(time.Second, run.run)).Milliseconds()
	}
	if s.chance(0.15) {
		spec.LostGraceMs = s.between(5*time.Second, time.Minute).Milliseconds()
	}
	if s.chance(0.15) {
		spec.StopWhenLostMs = s.between(15*time.Second, time.Minute).Milliseconds()
	}
	if w.draw.Limits {
		w.limits(spec, &run)
	}
	w.warnings(spec, &run)
	w.saveRequests(spec, &run)
	w.hangs(spec, &run)
	w.staysInPlace(spec, &run)
	w.chooses(spec)
	spec.Command = run.command()
	if len(w.client.jobs)%16 == 9 { // no random number is drawn
		spec.Script = &messages.Script{Name: "train.sh", Digest: strings.Repeat("5c", 32), SizeBytes: 1,
			Args: spec.Command}
		spec.Command = nil
	}
	return spec
}

// gangSpec returns a job over several nodes.
func (w *World) gangSpec() *messages.JobSpec {
	s, spec := w.jobs, w.baseSpec(w.draw.LongestRun)
	machines := 2
	for machines < w.draw.BigGang && s.chance(0.6) {
		machines++
	}
	perMachine := 1
	if s.chance(0.2) {
		perMachine = 2 + 2*s.below(2) // several members on one node
	}
	n := int32(machines * perMachine)
	spec.Gang = &messages.GangSpec{ReplicasMin: n, ReplicasMax: n}
	gpus := int64(8 / perMachine)
	if s.chance(0.3) {
		gpus = max(1, gpus/2)
	}
	spec.Each = &messages.Resources{MilliCpu: 4000 * gpus, MemoryBytes: gpus << 34, MilliGpu: gpus * topology.WholeGPU}
	switch {
	case s.chance(0.1):
		// This total of GPUs, regardless of their nodes.
		total := int64(8 + s.below(8*machines-8))
		spec.Each = nil
		spec.Gang = &messages.GangSpec{Split: messages.Split(1 + s.below(2)),
			Total: &messages.Resources{MilliCpu: 2000 * total, MemoryBytes: total << 34, MilliGpu: total * topology.WholeGPU}}
	case machines <= w.draw.PerRack/2 && s.chance(0.2):
		spec.Topology = &messages.TopologySpec{Required: "rack"}
	case s.chance(0.2):
		spec.Topology = &messages.TopologySpec{Preferred: "rack", PatienceMs: int64(s.below(20_000))}
	}
	w.careless(spec.Each)
	w.greedy(spec.Each)
	w.holdsSpares(spec)
	return spec
}

// careless removes the memory request from some jobs that request an amount per task, without drawing a random number.
func (w *World) careless(each *messages.Resources) {
	if len(w.client.jobs)%16 == 1 && each != nil {
		each.MemoryBytes = 0
	}
}

// smallSpec returns a job of one task with a few GPUs, a part of one, or none.
func (w *World) smallSpec() *messages.JobSpec {
	s, spec := w.jobs, w.baseSpec(w.draw.ShortRun)
	each := &messages.Resources{MilliCpu: int64(500 + s.below(8000)), MemoryBytes: int64(1+s.below(32)) << 30}
	switch s.below(4) {
	case 0:
		each.MilliGpu = 250 * int64(1+s.below(3))
	case 1, 2:
		each.MilliGpu = topology.WholeGPU * int64(1+s.below(4))
	}
	w.careless(each)
	w.whole(each)
	spec.Each = each
	return spec
}
