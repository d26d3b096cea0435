// Package traces tells a collector of OpenTelemetry how gangs lived: each job is a trace, with a span for what it
// waited, for each attempt and its phases, and for what ran. Nothing waits for it: what the collector does not take is
// lost, and neither a job nor a scheduler is kept up. What a job runs, and its environment, are not told.
package traces

import (
	"crypto/sha256"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how spans come of what a watch tells and of the phases that attempts got through. Ids follow from the
// names of what a span is about, so that another leader goes on with the same trace, and what is told twice is the
// same.

// maxOver is of how many jobs that are over it is remembered that they were told of: their records may change again.
const maxOver = 4096

// span is one of a trace. Times are in ns since 1970.
type span struct {
	trace       [16]byte
	id, parent  [8]byte
	name        string
	from, until int64
	failed      string // why it did not go well; empty: it did
	about       []attribute
}

// attribute says something of a span: a text, or a number where there is none.
type attribute struct {
	key, text string
	number    int64
}

// life has what has been told of a job that is not over.
type life struct {
	waits  int64                        // since when it has waited last (ms)
	ended  topology.Token               // the attempt whose end was told last
	phases map[topology.Token]stretched // of attempts that go on
}

// stretched is from when to when the phases of an attempt went that have been told (ns).
type stretched struct{ from, until int64 }

// weaver makes spans.
type weaver struct {
	cluster string
	began   bool // what there was at first has come
	lives   map[string]*life
	over    map[string]bool
	order   []string // of over, the oldest first
}

func newWeaver(cluster string) *weaver {
	return &weaver{cluster: cluster, lives: map[string]*life{}, over: map[string]bool{}}
}

// ofJob is a span of a job's trace, by what tells it from the others; empty: the one above all.
func (w *weaver) ofJob(job, name, mark string) *span {
	s := &span{name: name, about: []attribute{{key: "synapse.job", text: job}}}
	id := func(mark string) [32]byte { return sha256.Sum256([]byte(w.cluster + "\n" + job + "\n" + mark)) }
	trace, own := id("trace"), id(mark)
	copy(s.trace[:], trace[:])
	copy(s.id[:], own[:])
	if mark != "" {
		above := id("")
		copy(s.parent[:], above[:])
	}
	return s
}

// ofAttempt is a span below the one of an attempt; phase empty: the attempt's own.
func (w *weaver) ofAttempt(job string, token topology.Token, run int32, name, phase string) *span {
	mark := "attempt " + token.String()
	s := w.ofJob(job, name, mark+phase)
	if phase != "" {
		s.parent = w.ofJob(job, "", mark).id
	}
	s.about = append(s.about, attribute{key: "synapse.attempt", text: token.String()},
		attribute{key: "synapse.run", number: int64(run)})
	return s
}

func (w *weaver) lifeOf(job string) *life {
	l := w.lives[job]
	if l == nil {
		l = &life{phases: map[topology.Token]stretched{}}
		w.lives[job] = l
	}
	return l
}

// words has what phases are called in a trace.
var words = map[string]string{
	messages.PhaseReserving: "reserve", messages.PhaseDeciding: "decide", "committing": "commit", "preparing": "prepare",
	messages.PhaseStarting: "start",
}

// passed takes a phase that was over at a time (ms).
func (w *weaver) passed(p actors.Passage, at int64) []*span {
	job, until := string(p.Job), at*int64(time.Millisecond)
	name := words[p.Phase]
	if name == "" || w.over[job] {
		return nil
	}
	l := w.lifeOf(job)
	all, begun := l.phases[p.Token]
	if !begun {
		all.from = until - int64(p.Took)
		all.until = all.from
	}
	// A phase begins where the one before ended, however late each was told: nobody sees two of them at once.
	from := all.until
	until = max(until, from)
	all.until = until
	l.phases[p.Token] = all
	s := w.ofAttempt(job, p.Token, p.Run, name, name)
	s.from, s.until = from, until
	if !p.GivenUp {
		return []*span{s}
	}
	s.failed = p.Event
	if p.Phase != messages.PhaseReserving && p.Phase != messages.PhaseDeciding {
		return []*span{s} // it is on disk, and its end will be
	}
	whole := w.ofAttempt(job, p.Token, p.Run, "attempt", "")
	whole.from, whole.until, whole.failed = all.from, until, p.Event
	delete(l.phases, p.Token)
	return []*span{s, whole}
}

// take takes what a watch tells.
func (w *weaver) take(e *messages.Event) []*span {
	if e.GetSynced() {
		w.began = true
	}
	j, job := e.GetJob(), e.GetJob().GetRecord().GetId()
	if job == "" || j.GetRecord().GetArray() != nil || w.over[job] {
		return nil
	}
	over := j.GetRecord().GetState().Terminal()
	if w.lives[job] == nil && over && !w.began {
		w.forget(job) // it was over before
		return nil
	}
	l := w.lifeOf(job)
	if l.waits == 0 {
		l.waits = j.GetRecord().GetSubmittedUnixMs()
	}
	spans := w.attempt(l, j)
	if over {
		spans = append(spans, w.whole(l, j))
		w.forget(job)
	}
	return spans
}

// attempt are the spans of an attempt that has ended, if that has not been told: what it waited before, itself, and
// what ran.
func (w *weaver) attempt(l *life, j *messages.JobStatus) []*span {
	a, job := j.GetAttempt(), j.GetRecord().GetId()
	token, end := messages.FromToken(a.GetToken()), a.GetEnd()
	if end == nil || token == l.ended {
		return nil
	}
	l.ended = token
	begun := ns(a.GetCommittedUnixMs())
	if told, known := l.phases[token]; known {
		begun = min(begun, told.from) // of one that an earlier leader began, what came before is not known
	}
	waited, whole := w.ofJob(job, "wait", "wait "+token.String()), w.ofAttempt(job, token, a.GetRun(), "attempt", "")
	waited.from, waited.until = ns(l.waits), max(begun, ns(l.waits))
	whole.from, whole.until = begun, max(ns(end.GetAtUnixMs()), begun)
	l.waits, l.phases = end.GetAtUnixMs(), map[topology.Token]stretched{}
	if end.GetCause() != messages.Cause_CAUSE_SUCCEEDED {
		whole.failed = end.GetDetail()
	}
	spans := []*span{waited, whole}
	if a.GetStartedUnixMs() > 0 {
		ran := w.ofAttempt(job, token, a.GetRun(), "run", "run")
		ran.from, ran.until, ran.failed = ns(a.GetStartedUnixMs()), whole.until, whole.failed
		spans = append(spans, ran)
	}
	return spans
}

// whole is the span of a job that is over, from its submit on.
func (w *weaver) whole(l *life, j *messages.JobStatus) *span {
	rec := j.GetRecord()
	s := w.ofJob(rec.GetId(), "job", "")
	s.from, s.until = ns(rec.GetSubmittedUnixMs()), ns(max(rec.GetFinishedUnixMs(), rec.GetSubmittedUnixMs()))
	phase := messages.EndPhase(rec.GetState())
	if phase != messages.PhaseSucceeded {
		s.failed = rec.GetOutcome()
	}
	s.about = append(s.about, attribute{key: "synapse.job.name", text: rec.GetSpec().Called()},
		attribute{key: "synapse.owner", text: rec.Whose()}, attribute{key: "synapse.queue", text: rec.GetSpec().GetQueue()},
		attribute{key: "synapse.phase", text: phase}, attribute{key: "synapse.runs", number: int64(rec.GetRuns())},
		attribute{key: "synapse.tasks", number: int64(rec.GetSpec().GetGang().GetReplicasMax())})
	return s
}

// forget remembers of a job only that it is over.
func (w *weaver) forget(job string) {
	delete(w.lives, job)
	w.over[job] = true
	if w.order = append(w.order, job); len(w.order) > maxOver {
		delete(w.over, w.order[0])
		w.order = w.order[1:]
	}
}

func ns(ms int64) int64 { return ms * int64(time.Millisecond) }
