package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file controls a whole run. Jobs and faults happen for a while. Then all faults are repaired and all jobs must
// finish. Then nothing may happen any more.

// Result holds the findings of a run.
type Result struct {
	Seed       uint64
	Trace      string
	Steps      uint64
	Gangs      int
	Faults     int
	Violations []Violation
	Options    string // the draw of the seed on one line
	Virtual    time.Duration
	Machines   int
	Jobs       int
	Taken      map[Taken]int
	Meetings   map[Meeting]bool // if they were requested
	Drawn      []string         // the faults of this run
	Counters   map[string]int64
	Gaps       []Gap    // if they were requested
	Recent     []string // the last log lines of a failed run
}

// Line returns the printed line of a seed.
func (r Result) Line() string {
	return fmt.Sprintf("seed=%d trace=%s steps=%d gangs=%d faults=%d violations=%d",
		r.Seed, r.Trace, r.Steps, r.Gangs, r.Faults, len(r.Violations))
}

const (
	// time after the faults until all jobs must have finished, in addition to their run times
	settleLeast = 40 * time.Minute
	restFor     = 20 * time.Second

	prepareUsual = 5 * time.Second
)

// Run runs one seed from its beginning to its end.
func Run(o Options) (Result, error) {
	w, err := NewWorld(o)
	if err != nil {
		return Result{}, err
	}
	defer func() { w.store.file.close() }()
	w.share()
	w.arrive()
	w.arriveArrays()
	w.scan()
	w.RunFor(w.draw.Load)
	w.linger()
	w.heal()
	w.settle()
	w.rest()
	w.enough()
	return w.result(), nil
}

// RunFor advances virtual time by d, unless a violation ends the run.
func (w *World) RunFor(d time.Duration) {
	limit := w.engine.now.plus(d)
	for w.engine.now < limit && w.engine.step(limit) {
	}
}

// linger continues the load while a drawn fault has not had its chance, or while faults have left too little time for
// gangs.
func (w *World) linger() {
	limit := w.engine.now.plus(w.draw.Load)
	w.lingering = true
	for !w.engine.halted && w.engine.now < limit && (len(w.faults.missed()) > 0 || w.gangs < w.draw.Enough) {
		w.submitDrawn(true)
		w.submitUnwanted()
		w.stopOne()
		w.RunFor(w.draw.Pace / 4)
	}
}

// stopOne cancels a running job if tasks that ignore a stop were drawn and none was stopped yet.
func (w *World) stopOne() {
	if m := w.faults.byName["term-ignored"]; m == nil || m.struck > 0 {
		return
	}
	for _, o := range w.client.jobs {
		if page := w.books.jobs[o.id]; page != nil && page.record.State == messages.JobState_JOB_STATE_ACTIVE {
			w.client.cancel(o)
			return
		}
	}
}

// heal ends the faults, and operators undo their cordons and drains.
func (w *World) heal() {
	if w.engine.halted {
		return
	}
	w.say("healed")
	w.faults.heal()
	for len(w.clones) > 0 {
		w.unclone(w.clones[0])
	}
	for len(w.foreign) > 0 {
		w.part(w.foreign[0])
	}
	for _, m := range w.machines {
		m.powerOn()
	}
	w.applyQueues(w.sharing.tree) // a lowered limit would keep jobs from ever starting
	w.healedAt, w.settling = w.engine.now, settleLeast+w.owed()
	w.reopen()
	w.engine.after(time.Minute, w.giveUp)
}

// reopen removes every cordon and drain, including those of the scheduler.
func (w *World) reopen() {
	if w.resting {
		return
	}
	for _, m := range w.machines {
		n := w.books.nodes[string(m.id)]
		if m.core() && !m.drained && n != nil && n.Removed == nil &&
			(n.Cordoned != nil || n.Drained != nil || n.Closing != nil) {
			w.client.uncordon(m)
		}
	}
	w.engine.after(30*time.Second, w.reopen)
}

// giveUp cancels jobs that can never run on the remaining nodes and jobs that hang, and releases held jobs.
func (w *World) giveUp() {
	if w.resting {
		return
	}
	for _, o := range w.client.jobs {
		if o.id == "" {
			// An earlier leader may have refused a submit that the present one accepted.
			o.id = w.books.requests[o.requestID]
		}
		page := w.books.jobs[o.id]
		if page == nil || page.record.State.Terminal() {
			continue
		}
		if page.record.Hold != nil && page.record.Spec.GetArray() == nil || page.record.GetArray().GetHold() != nil ||
			len(page.record.GetArray().GetHeld()) > 0 {
			w.client.hold(o, true)
		}
		if page.record.Spec.BeginUnixMs != 0 { // by a clock that jumped, the begin time may be an hour away
			w.client.update(o, &messages.Update{SetBegin: true})
			if p := w.leader(); p != nil && p.old { // a scheduler of the previous version lacks this call
				w.client.cancel(o)
			}
		}
		waits := page.record.State == messages.JobState_JOB_STATE_QUEUED
		hangs := w.engine.now.since(page.since) > 3*w.draw.LongestRun+time.Minute ||
			w.engine.now.since(w.healedAt) > w.settling/2
		never := !w.feasible(page.record.Spec) || !w.everAllowed(page.record)
		if waits && never || !waits && hangs {
			w.client.cancel(o)
		}
	}
	w.giveUpElements()
	w.removeGone()
	w.engine.after(time.Minute, w.giveUp)
}

// removeGone removes lost nodes by an operator's request if jobs wait for that. It applies to jobs with an allocation
// on a node that lied about its leader, because the silence of such a node proves nothing. It also applies to jobs
// without a UID, because the lost node's last report holds some UIDs.
func (w *World) removeGone() {
	lacking := w.noUIDIsFree()
	for _, m := range w.machines {
		n := w.books.nodes[string(m.id)]
		if m.gone && (m.lied || lacking) && len(m.wishes) == 0 && n != nil && n.Removed == nil {
			w.client.remove(m, func() {})
		}
	}
}

// giveUpElements cancels hanging jobs that no client submitted one by one. Such jobs are found later, because elements
// of an array run one after the other.
func (w *World) giveUpElements() {
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if page.record.State.Terminal() || page.record.Spec.GetElement() == nil {
			continue
		}
		if page.record.State == messages.JobState_JOB_STATE_ACTIVE &&
			w.engine.now.since(page.since) > 3*w.draw.LongestRun+time.Minute {
			w.client.cancel(&Order{id: id})
		} else if page.record.Hold != nil {
			w.client.hold(&Order{id: id}, true)
		}
	}
}

// settle waits until every job has finished. It reports which job waits for what.
func (w *World) settle() {
	limit := w.engine.now.plus(w.settling)
	for !w.engine.halted && w.engine.now < limit {
		w.RunFor(5 * time.Second)
		if w.engine.now > max(w.healedAt.plus(2*time.Minute), w.lateUntil) && len(w.unsettled(1)) == 0 {
			return
		}
	}
	if w.engine.halted || w.opts.Unchecked {
		return
	}
	for _, text := range w.unsettled(5) {
		w.violate("L5 all-admitted", "%s after the faults: %s", w.settling, text)
	}
}

// owed returns how long the unfinished jobs need the cluster, one after the other. After an hour of load the waiting
// jobs may need another hour. A gang's share of the nodes is ignored, because a large gang leaves too little for
// others.
func (w *World) owed() time.Duration {
	var sum time.Duration
	for _, id := range w.books.ids {
		if r := w.books.jobs[id].record; !r.State.Terminal() {
			grace := time.Duration(r.Spec.GetStop().GetGraceMs()) * time.Millisecond
			plan := parseScript(wordsOf(r.Spec))
			once := plan.run + grace + max(plan.image, prepareUsual)
			sum += once * time.Duration(1+r.Spec.GetRestart().GetLimit()) * time.Duration(max(r.Spec.GetArray().Len(), 1))
		}
	}
	return sum
}

// unsettled lists what unfinished jobs wait for, up to a limit.
func (w *World) unsettled(most int) []string {
	var out []string
	for _, path := range sortedKeys(w.client.asks) {
		if a := w.client.asks[path]; len(out) < most {
			out = append(out, fmt.Sprintf("the client has waited for an answer to %s since %s",
				describe(a.message), clockFace(a.since)))
		}
	}
	for _, id := range w.books.ids {
		if page := w.books.jobs[id]; len(out) < most && !page.record.State.Terminal() {
			out = append(out, w.whyWaits(page))
		}
	}
	for _, m := range w.machines {
		if len(out) < most && m.core() && len(m.launcher.order) > 0 {
			t := m.launcher.order[0]
			out = append(out, fmt.Sprintf("%s still has the container %v of %s (state %d)", m.address, t.key, t.job, t.state))
		}
	}
	return out
}

// whyWaits describes a job that has not finished.
func (w *World) whyWaits(page *jobPage) string {
	r := page.record
	var text strings.Builder
	fmt.Fprintf(&text, "%s is %v since %s, revision %d, runs %d, infra %d", r.Id, r.State, clockFace(page.since),
		r.Revision, r.Runs, r.InfraRestarts)
	if r.Hold != nil {
		text.WriteString(", held")
	}
	if r.NotBeforeUnixMs > 0 {
		fmt.Fprintf(&text, ", not before %d", r.NotBeforeUnixMs)
	}
	if r.Spec.GetArray() != nil {
		fmt.Fprintf(&text, ", an array of %v: %v", r.Spec.Array, r.Array)
	}
	for _, t := range page.tokens {
		a := w.books.attempts[t]
		if a == nil || a.End != nil && !a.Owes() {
			continue
		}
		fmt.Fprintf(&text, "; %v end=%v owes", t, a.End.GetCause())
		for _, p := range a.Places {
			if p.Exit == nil {
				fmt.Fprintf(&text, " %d@%s", p.Rank, p.Node)
			}
		}
	}
	return text.String()
}

// rest lets nothing happen for a while and then checks whether all records agree.
func (w *World) rest() {
	if w.engine.halted || !w.checking {
		return
	}
	w.resting = true
	w.RunFor(restFor + w.constants.LearnedEvery) // the estimates of the last end are saved once more
	w.idling = true
	w.RunFor(restFor)
	w.idling = false
	for _, inv := range w.checks {
		if !w.engine.halted {
			inv.Quiet(w)
		}
	}
}

// enough fails a seed that tested too little. Such a run must not look like one without findings.
func (w *World) enough() {
	if w.engine.halted {
		return
	}
	if missed := w.faults.missed(); len(missed) > 0 {
		w.violate("seed did too little", "never happened: %s", strings.Join(missed, ", "))
	}
	if w.gangs < w.draw.Enough {
		w.violate("seed did too little", "%d gangs ran, at least %d must", w.gangs, w.draw.Enough)
	}
}

func (w *World) result() Result {
	r := Result{Seed: w.opts.Seed, Trace: w.engine.trace.sum(), Steps: w.engine.steps, Gangs: w.gangs,
		Faults:     w.faults.total(),
		Violations: w.violations, Options: w.draw.String(), Virtual: w.engine.now.duration(), Machines: len(w.machines),
		Jobs: len(w.books.ids), Taken: w.edges, Counters: w.counters,
		Meetings: w.meetings, Drawn: w.draw.Faults, Gaps: w.gaps.all()}
	if len(w.violations) > 0 {
		r.Recent = append(w.Recent(), w.condition()...)
	}
	return r
}

// condition describes the nodes and links at the end of a failed run.
func (w *World) condition() []string {
	var out []string
	for _, h := range w.schedulers {
		if p := h.proc; p != nil {
			out = append(out, fmt.Sprintf("%s#%d epoch=%d paused=%v cut=%d", h.address, p.serial, p.epoch, p.paused, h.cut))
		}
	}
	for _, m := range w.machines[:min(len(w.machines), 128)] {
		text := fmt.Sprintf("%s powered=%v gone=%v tasks=%d", m.address, m.powered, m.gone, len(m.launcher.order))
		if p := m.proc; p != nil && p.node != nil {
			text += fmt.Sprintf(" #%d paused=%v node=%s epoch=%d slices=%d",
				p.serial, p.paused, p.node.State(), p.node.Epoch(), len(p.node.Ledger().Allocations()))
		}
		for _, l := range m.links {
			text += fmt.Sprintf(" [%s up=%v blocked=%d/%d dialing=%v]",
				l.host.address, l.up(), l.ends[0].blocked, l.ends[1].blocked, l.dialing)
		}
		out = append(out, text)
	}
	return out
}

// spawned notes a new process, and counts a gang when all of it has started.
func (w *World) spawned(m *machine, t *task) {
	w.seen(Event{Kind: TaskSpawned, Machine: m, Task: t})
	a := w.books.attempts[t.key.Token]
	if a == nil {
		return
	}
	w.running[t.key.Token]++
	w.happened(m, t, true)
	if n := w.running[t.key.Token]; n == len(a.Places) && n > 1 {
		w.gangs++
	}
}
