// Package replay runs a recorded workload through the production actors on virtual time, and measures the result: which
// jobs wait, for how long, and how the nodes are used.
package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/rival"
	"github.com/yi-json/synapse/topology"
)

// This file runs a replay. It submits the jobs to a simulated cluster at their submit times, runs them for their
// durations, and observes them.

// Watch holds the observers of a replay. Either may be nil.
type Watch struct {
	// Clock is read around each pass. If it is nil, passes are not timed.
	Clock func() time.Duration
	// Progress is called at the end of each job with the number of ended jobs. It returns whether to continue.
	Progress func(ended int) bool
}

// run is one replay.
type run struct {
	o       record.Order
	watch   Watch
	w       *sim.World
	jobs    []record.Job
	lives   []life
	known   map[topology.JobID]int
	names   names
	began   time.Duration // submit of the first job, since the world began
	next    int           // next job to be submitted
	ended   int
	due     int           // number of jobs that must end
	tooBig  []bool        // jobs that do not fit on the idle cluster
	ran     time.Duration // observed time since the submit of the first job
	broken  error         // first inconsistency of the replay
	census  *census
	seen    *seen // what the planner learns about running jobs; nil: it needs nothing
	passes  int
	passing time.Duration
}

// life holds the history of a job. A job that is started again because its nodes were unavailable counts as one job: it
// waits until its first start, and ends with its last attempt.
type life struct {
	started, ended time.Duration // since the submit of the first job; negative: not yet
	attempt        topology.Token
	gone           int // members of the attempt that have ended
	racks          map[int]bool
	whole          bool // all members of the attempt run
	shifts
}

// Run executes an order.
func Run(o record.Order, watch Watch) (*record.Result, error) {
	r, err := replayed(o, watch)
	if err != nil {
		return nil, err
	}
	return r.result(), nil
}

// replayed returns a finished run.
func replayed(o record.Order, watch Watch) (*run, error) {
	if err := o.Cluster.Check(); err != nil {
		return nil, err
	}
	if o.Ref {
		if !o.Cluster.Alike() {
			return nil,
				errors.New(
					"published simulators need equal nodes: use the placement of the cluster for nodes that differ")
		}
		o.Jobs = totals(o.Jobs)
	}
	if o.Preempt = o.Preempt && record.IsOwn(o.Policy); o.Preempt && o.Queues == nil {
		o.Queues = record.ShortFirst()
	}
	r := &run{o: o, watch: watch, jobs: shaken(o), known: map[topology.JobID]int{}, names: names{}}
	r.lives = make([]life, len(o.Jobs))
	for i := range r.lives {
		r.lives[i] = life{started: -1, ended: -1, shifts: shifts{begun: -1}}
	}
	if err := r.build(); err != nil {
		return nil, err
	}
	r.w.RunFor(settling)
	r.began = r.w.Now()
	r.submitNext()
	r.run()
	if v := r.w.Violations(); len(v) > 0 {
		return nil, fmt.Errorf("the simulated cluster broke an invariant: %v", v[0])
	}
	if r.broken == nil && o.Check && r.hasBound() {
		r.broken = r.overBound()
	}
	return r, r.broken
}

// run advances time until all jobs have finished, the order's end time is reached, or the observer stops it.
func (r *run) run() {
	told, stopped := 0, false
	over := func() bool {
		if r.watch.Progress != nil && r.ended > told {
			told = r.ended
			stopped = !r.watch.Progress(r.ended)
		}
		return stopped || r.broken != nil || r.ended == r.due
	}
	limit := r.o.Until
	if limit == 0 {
		limit = forever
	}
	all := r.w.StepUntil(over, limit)
	if r.ran = r.w.Now() - r.began; !all && !stopped {
		r.ran = limit // the last step was before it
	}
	r.census.pass(r.ran)
}

// totals removes the tasks of jobs, so that each requests a total of GPUs. Published simulators know only such jobs.
func totals(jobs []record.Job) []record.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Tasks = 0
	}
	return jobs
}

const (
	// settling is the time that a new cluster takes until all its nodes have registered.
	settling = time.Minute
	day      = 24 * time.Hour
	forever  = 100 * 365 * day
)

// constants returns the constants of a cluster without failures. Checks for failures run once a day.
func constants() *actors.Constants {
	c := actors.DefaultConstants()
	c.Heartbeat, c.RackTick, c.DeadAfter = day, day, 1000*day
	c.ReportDelay = 0
	c.MirrorFinished = 100
	return &c
}

// build creates the cluster.
func (r *run) build() error {
	g := newGround(r.o.Cluster, slices.ContainsFunc(r.jobs, func(j record.Job) bool { return j.Tasks > 0 }))
	r.census = newCensus(g)
	r.tooBig = make([]bool, len(r.jobs))
	holds := map[shape]bool{}
	for i, j := range r.jobs {
		s := shapeOf(j)
		fits, ok := holds[s]
		if !ok {
			fits = g.fits(s)
			holds[s] = fits
		}
		if r.tooBig[i] = !fits; fits {
			r.due++
		}
	}
	w := sim.Options{Seed: r.o.Seed, World: "small", Plain: true, Machines: len(r.o.Cluster.GPUs), GPUs: r.o.Cluster.GPUs,
		Racks:     r.o.Cluster.Racks,
		Constants: constants(), Prompt: true, Latency: r.o.Latency, Unchecked: !r.o.Check}
	planner, err := r.planner()
	if err != nil {
		return err
	}
	w.Planner = planner
	if r.w, err = sim.NewWorld(w); err != nil {
		return err
	}
	r.w.OnTask(r.happened)
	if r.o.Preempt {
		r.w.OnStart(func(job topology.JobID) time.Duration { return r.toRun(r.of(job)) })
	}
	return nil
}

func shapeOf(j record.Job) shape { return shape{gpus: j.GPUs, tasks: j.Tasks} }

// planner returns the policy's planner, with a clock around its passes.
func (r *run) planner() (policy.Planner, error) {
	switch r.o.Policy {
	case record.InOrder:
		if r.o.Queues == nil {
			return timed{policy.Default{}, r}, nil
		}
		r.seen = newSeen(r, policy.OnlyFIFO())
		return timed{r.seen, r}, nil
	case record.Synapse:
		settings, known := policy.DefaultSettings(), true
		if r.o.Without != "" {
			if settings, known = settings.Without(r.o.Without); !known {
				return nil, fmt.Errorf("unknown part %q of the policy: use %s", r.o.Without,
					strings.Join(policy.Parts(), ", "))
			}
		}
		r.seen = newSeen(r, settings)
		r.census.withheld = &withheld{ground: r.census.ground, ask: r.seen.Withheld, passes: &r.passes}
		return timed{r.seen, r}, nil
	}
	var ground rival.Ground = &rival.Own{}
	if r.o.Ref {
		var ids []topology.NodeID
		for i := range r.o.Cluster.GPUs {
			ids = append(ids, sim.NodeID(i+1))
		}
		ground = rival.NewPublished(rival.NewRoom(r.o.Cluster.Racks, r.o.Cluster.Largest()), ids)
	}
	p, err := rival.New(r.o.Policy, ground, oracle{r})
	if p != nil {
		r.census.blocked = p.Stuck
	}
	return timed{p, r}, err
}

// timed measures the duration of passes.
type timed struct {
	policy.Planner
	r *run
}

// Plan runs a pass.
func (t timed) Plan(view *topology.Tree, queue *policy.Queue, nowNs int64) policy.Decisions {
	t.r.census.pass(t.r.w.Now() - t.r.began) // the time before belongs to the state after the previous pass
	t.r.passes++
	if t.r.watch.Clock == nil {
		return t.Planner.Plan(view, queue, nowNs)
	}
	began := t.r.watch.Clock()
	d := t.Planner.Plan(view, queue, nowNs)
	t.r.passing += t.r.watch.Clock() - began
	return d
}

// Stopped reports a preemption by the leader to the planner, if the planner supports preemption.
func (t timed) Stopped(job topology.JobID, token topology.Token) {
	if p, is := t.Planner.(policy.Preempter); is {
		p.Stopped(job, token)
	}
}

// oracle answers policies for comparison.
type oracle struct{ r *run }

// Length returns the run time of a job, or its limit.
func (o oracle) Length(id topology.JobID) time.Duration {
	j := o.r.jobs[o.r.of(id)]
	if o.r.o.Oracle || j.Limit == 0 {
		return j.Duration
	}
	return j.Limit
}

// Over reports whether a job has ended.
func (o oracle) Over(id topology.JobID) bool { return o.r.lives[o.r.of(id)].ended >= 0 }

// of returns the number of a job in the record, which is its name in the cluster.
func (r *run) of(id topology.JobID) int {
	if i, known := r.known[id]; known {
		return i
	}
	i, err := strconv.Atoi(r.w.NameOf(id))
	if err != nil {
		panic(fmt.Sprintf("replay: job %s of the cluster is not in the record", id))
	}
	r.known[id] = i
	return i
}

// submitNext submits the jobs of one instant, and schedules itself for the next one.
func (r *run) submitNext() {
	for r.next < len(r.jobs) {
		j := r.jobs[r.next]
		if at := r.began + j.Submit; at > r.w.Now() {
			r.w.At(at, r.submitNext)
			return
		}
		if !r.tooBig[r.next] {
			r.w.SubmitAs(r.names.of(ownerOf(j), "u"), r.specOf(r.next, j), false)
			r.census.waits(j.Submit, shapeOf(j))
		}
		r.next++
	}
}

// ownerOf returns the owner of a job, or an empty string if the record names none.
func ownerOf(j record.Job) string { return (&messages.Principal{Name: j.User}).Known() }

// names maps the users and queues of a record, which may have any name, to names that a cluster permits, in order of
// appearance.
type names map[string]string

func (n names) of(name, prefix string) string {
	if name == "" {
		return ""
	}
	key := prefix + name
	if n[key] == "" {
		n[key] = prefix + strconv.Itoa(len(n))
	}
	return n[key]
}

// specOf returns a job as a user would submit it: equal tasks, or a total of GPUs on the fewest possible nodes. Its
// name is only its number, which reveals nothing about its run time.
func (r *run) specOf(i int, j record.Job) *messages.JobSpec {
	gpus := int64(j.GPUs)
	spec := &messages.JobSpec{
		Name: strconv.Itoa(i), Queue: r.queueOf(j),
		Image: "host", Command: sim.Script(j.Duration, 0),
		Priority: j.Priority, Restart: &messages.RestartSpec{},
	}
	if j.Tasks > 0 {
		n := int32(j.Tasks)
		spec.Gang, spec.Each = &messages.GangSpec{ReplicasMin: n, ReplicasMax: n}, resources(gpus/int64(n))
	} else {
		spec.Gang = &messages.GangSpec{Split: messages.Split_SPLIT_WHOLE, Total: resources(gpus)}
	}
	if j.Limit > 0 {
		// If a job ran longer than its requested limit, the real cluster permitted that, and the replay does
		// too. The end of a job is known only after some messages and writes.
		limit := max(j.Limit, j.Duration) + time.Second + 100*r.o.Latency
		if r.o.Preempt {
			limit += resuming // otherwise a job without checkpoints would not finish
		}
		spec.TimeLimitMs = limit.Milliseconds()
	}
	spec.CheckpointMs = r.o.Checkpoint.Milliseconds()
	return spec
}

// queueOf returns the queue of a job in the cluster. If there are queues, it is one of them.
func (r *run) queueOf(j record.Job) string {
	switch q := r.o.Queues; {
	case q == nil:
		return cmp.Or(r.names.of(j.Queue, "q"), "default")
	case q.Find(j.Queue) >= 0:
		return j.Queue
	default:
		return q.Default
	}
}

// resources returns GPUs with so little CPU and memory that only the GPUs of a node limit the number of tasks.
func resources(gpus int64) *messages.Resources {
	return &messages.Resources{MilliCpu: 1000 * gpus, MemoryBytes: gpus << 30, MilliGpu: topology.WholeGPU * gpus}
}

// happened handles the start or the end of a process.
func (r *run) happened(h sim.Happening) {
	i, now := r.of(h.Job), r.w.Now()-r.began
	l := &r.lives[i]
	if l.attempt != h.Attempt { // the first attempt, or a later one
		if l.ended >= 0 {
			r.ended--
		}
		l.attempt, l.gone, l.ended, l.racks, l.begun = h.Attempt, 0, -1, map[int]bool{}, -1
	}
	if h.Began {
		l.racks[r.census.ground.rack[h.Machine-1]] = true
		r.census.moved(now, h.Machine-1, -h.GPUs)
		if h.Whole {
			r.begins(i, h.Job, now)
		}
		return
	}
	r.census.moved(now, h.Machine-1, h.GPUs)
	if l.gone++; l.gone == 1 {
		r.gang(i, now, -1)
	}
	if l.gone < h.Members {
		return
	}
	ran, stopped := r.ends(i, now)
	r.seen.note(h.Job, false, !stopped)
	if stopped {
		return
	}
	l.ended = now
	r.ended++
	if l.started >= 0 && ran < r.toRun(i) && r.broken == nil {
		r.broken = fmt.Errorf("the job of line %d was stopped after %s, but runs for %s", r.jobs[i].Line, ran, r.toRun(i))
	}
}

// begins notes that all tasks of a job run.
func (r *run) begins(i int, job topology.JobID, now time.Duration) {
	l := &r.lives[i]
	l.begun = now
	r.gang(i, now, 1)
	if l.started < 0 || l.again {
		r.census.starts(now, shapeOf(r.jobs[i]))
	}
	if l.again = false; l.started < 0 {
		l.started = now
	}
	r.seen.note(job, true, false)
}

// gang counts a job that starts (1) or ends (-1), if it is larger than one node.
func (r *run) gang(i int, now time.Duration, by int) {
	l := &r.lives[i]
	if runs := by > 0; l.whole != runs && r.jobs[i].GPUs > r.o.Cluster.Largest() {
		l.whole = runs
		r.census.gang(now, r.isNear(i), by)
	}
}

// shaken returns the jobs with jittered durations, each with its own draw.
func shaken(o record.Order) []record.Job {
	out := slices.Clone(o.Jobs)
	if o.Shake == 0 {
		return out
	}
	for i := range out {
		by := o.Shake * (2*sim.Chance(o.Seed, uint64(i)) - 1)
		out[i].Duration += time.Duration(float64(out[i].Duration) * by)
	}
	return out
}
