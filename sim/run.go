package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns a whole run: jobs and faults for a while, then everything is
// healed and must come to its end, then nothing happens and must go on so.

// Result holds the findings of a run.
type Result struct {
	Seed       uint64
	Trace      string
	Steps      uint64
	Gangs      int
	Faults     int
	Violations []Violation
	Options    string // that the seed drew, on one line
	Virtual    time.Duration
	Machines   int
	Jobs       int
	Taken      map[Taken]int
	Meetings   map[Meeting]bool // where they were asked for
	Drawn      []string         // the faults of this run
	Counters   map[string]int64
	Gaps       []Gap    // where they were asked for
	Recent     []string // the last log lines of a run that failed
}

// Line returns the printed line of a seed.
func (r Result) Line() string {
	return fmt.Sprintf("seed=%d trace=%s steps=%d gangs=%d faults=%d violations=%d",
		r.Seed, r.Trace, r.Steps, r.Gangs, r.Faults, len(r.Violations))
}

const (
	settleLeast = 40 * time.Minute // after the faults, for everything to come to its end, beside what jobs need
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

// RunFor lets this much virtual time pass, unless something breaks.
func (w *World) RunFor(d time.Duration) {
	limit := w.engine.now.plus(d)
	for w.engine.now < limit && w.engine.step(limit) {
	}
}

// linger lets load go on while a fault that was drawn has not had its chance, or
// faults have left too little time for gangs to run.
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

// stopOne has somebody cancel a job that runs, where tasks that ignore being told to stop were drawn and none has been
// told yet.
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

// heal ends the faults and lets people take back what they had closed.
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
	w.applyQueues(w.sharing.tree) // what somebody lowered would keep jobs from ever starting
	w.healedAt, w.settling = w.engine.now, settleLeast+w.owed()
	w.reopen()
	w.engine.after(time.Minute, w.giveUp)
}

// reopen takes back every cordon and drain, the ones of the scheduler too.
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

// giveUp cancels what can never run on the machines that are left and what has
// hung, and lets go of what is held.
func (w *World) giveUp() {
	if w.resting {
		return
	}
	for _, o := range w.client.jobs {
		if o.id == "" {
			// A leader of the past may have refused what the present one took.
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
		if page.record.Spec.BeginUnixMs != 0 { // by a clock that jumped it may be an hour away
			w.client.update(o, &messages.Update{SetBegin: true})
			if p := w.leader(); p != nil && p.old { // it has no such call
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

// removeGone gives the operator's word on machines that are gone for ever, where jobs wait for that word: those that
// have something on a machine which lied about the leader that it obeys, for its silence proves nothing; and those that
// lack a uid, for its last books hold some.
func (w *World) removeGone() {
	lacking := w.noUIDIsFree()
	for _, m := range w.machines {
		n := w.books.nodes[string(m.id)]
		if m.gone && (m.lied || lacking) && len(m.wishes) == 0 && n != nil && n.Removed == nil {
			w.client.remove(m, func() {})
		}
	}
}

// giveUpElements does the same of jobs that nobody ordered one by one. What hangs there is found later than its like:
// an array's elements run one after the other.
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

// settle waits for every job to be over. What is not says which job waits for
// what.
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

// owed is for how long the jobs that are not over need the room, one after the
// other: what waits after an hour of load may well take another. A gang's share of
// the machines is not looked at, for a large one leaves the rest to nobody.
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

// unsettled says of a limited number of things what they wait for.
func (w *World) unsettled(most int) []string {
	var out []string
	for _, path := range sortedKeys(w.client.asks) {
		if a := w.client.asks[path]; len(out) < most {
			out = append(out, fmt.Sprintf("the client waits for an answer to %s since %s",
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

// whyWaits says what is known of a job that is not over.
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

// rest lets nothing happen for a while and then looks whether all agree.
func (w *World) rest() {
	if w.engine.halted || !w.checking {
		return
	}
	w.resting = true
	w.RunFor(restFor + w.constants.LearnedEvery) // what ended last is written down once more
	w.idling = true
	w.RunFor(restFor)
	w.idling = false
	for _, inv := range w.checks {
		if !w.engine.halted {
			inv.Quiet(w)
		}
	}
}

// enough fails a seed that saw too little: a run that tests nothing must not
// look like one that found nothing.
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

// condition says of a run that failed how its machines and links stood.
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
				p.serial, p.paused, p.node.State(), p.node.Epoch(), len(p.node.Ledger().Slices()))
		}
		for _, l := range m.links {
			text += fmt.Sprintf(" [%s up=%v blocked=%d/%d dialing=%v]",
				l.host.address, l.up(), l.ends[0].blocked, l.ends[1].blocked, l.dialing)
		}
		out = append(out, text)
	}
	return out
}

// spawned notes a process that has come to be, and counts a gang when all of it has.
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
