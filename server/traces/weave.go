// Package traces exports the lives of gangs to an OpenTelemetry collector. Each job is a trace with spans for its
// waiting time, its attempts and their phases, and its running time. No job or scheduler waits for the collector:
// spans that it does not accept are dropped. Commands and environments of jobs are not exported.
package traces

import (
	"crypto/sha256"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file creates spans from the events of a watch and from the phases of attempts. IDs are hashes of names.
// Another leader therefore continues the same trace, and a span that is sent twice has the same ID.

// maxOver limits the number of remembered finished jobs. Their records may still change, and must not be exported
// again.
const maxOver = 4096

// span is one span of a trace. Times are in ns since 1970.
type span struct {
	trace       [16]byte
	id, parent  [8]byte
	name        string
	from, until int64
	failed      string // reason of a failure; empty: success
	about       []attribute
}

// attribute is a text attribute of a span, or a number if the text is empty.
type attribute struct {
	key, text string
	number    int64
}

// life holds what was exported of an unfinished job.
type life struct {
	waits  int64                        // start of the current waiting time (ms)
	ended  topology.Token               // the last attempt whose end was exported
	phases map[topology.Token]stretched // of unfinished attempts
}

// stretched is the time range (ns) of the exported phases of an attempt.
type stretched struct{ from, until int64 }

// weaver creates spans.
type weaver struct {
	cluster string
	began   bool // the initial state is complete
	lives   map[string]*life
	over    map[string]bool
	order   []string // keys of over, oldest first
}

func newWeaver(cluster string) *weaver {
	return &weaver{cluster: cluster, lives: map[string]*life{}, over: map[string]bool{}}
}

// ofJob returns a span of a job's trace. mark distinguishes the spans of the job; the root span has an empty mark.
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

// ofAttempt returns a span below that of an attempt, or the attempt's own span if phase is empty.
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

// words maps phases to their names in a trace.
var words = map[string]string{
	messages.PhaseReserving: "reserve", messages.PhaseDeciding: "decide", "committing": "commit", "preparing": "prepare",
	messages.PhaseStarting: "start",
}

// passed processes a phase that ended at a time (ms).
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
	// A phase starts at the end of the previous one, regardless of delays, so that phases do not overlap.
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
		return []*span{s} // the end of a committed attempt will be in its record
	}
	whole := w.ofAttempt(job, p.Token, p.Run, "attempt", "")
	whole.from, whole.until, whole.failed = all.from, until, p.Event
	delete(l.phases, p.Token)
	return []*span{s, whole}
}

// take processes an event of a watch.
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
		w.forget(job) // it had finished before
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

// attempt returns the spans of an ended attempt, if they were not exported yet: the waiting time before it, the
// attempt, and its running time.
func (w *weaver) attempt(l *life, j *messages.JobStatus) []*span {
	a, job := j.GetAttempt(), j.GetRecord().GetId()
	token, end := messages.FromToken(a.GetToken()), a.GetEnd()
	if end == nil || token == l.ended {
		return nil
	}
	l.ended = token
	begun := ns(a.GetCommittedUnixMs())
	if told, known := l.phases[token]; known {
		begun = min(begun, told.from) // an earlier leader's phases are unknown
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

// whole returns the root span of a finished job.
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

// forget keeps only the fact that a job has finished.
func (w *weaver) forget(job string) {
	delete(w.lives, job)
	w.over[job] = true
	if w.order = append(w.order, job); len(w.order) > maxOver {
		delete(w.over, w.order[0])
		w.order = w.order[1:]
	}
}

func ns(ms int64) int64 { return ms * int64(time.Millisecond) }
