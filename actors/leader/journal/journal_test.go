package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/datadriven"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// journalRig is a Journal with a store, a clock and a host that only record their calls. The script plays their part.
type journalRig struct {
	j      *Journal
	now    actors.Instant
	timers []journalTimer
	said   []string
	tries  map[uint64][]actors.Change
}

type journalTimer struct {
	at      actors.Instant
	message any
}

// told is the context of one message. It records the messages that the Journal sends.
type told struct {
	actor.Context
	rig     *journalRig
	message any
	sender  *actor.PID
}

func (c told) Message() any       { return c.message }
func (c told) Sender() *actor.PID { return c.sender }
func (c told) Self() *actor.PID   { return actor.NewPID("here", actors.JournalPath) }

func (c told) Send(to *actor.PID, message any) {
	if m, is := message.(protocol.Unwritten); is {
		c.rig.say("%s <- %v unwritten: %s", to.Id, m.Tag, m.Why)
		return
	}
	w := message.(protocol.Written)
	what := map[actors.Verdict]string{0: "full", actors.Done: "done", actors.Conflict: "conflict"}[w.Verdict]
	if w.Full != (w.Verdict == 0) {
		what = fmt.Sprintf("%+v", w)
	}
	c.rig.say("%s <- %v %s", to.Id, w.Tag, what)
}

func (r *journalRig) say(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

// Now and the following methods make the rig every port of the Journal.
func (r *journalRig) Now() actors.Instant { return r.now }
func (r *journalRig) WallMs() int64       { return 0 }
func (r *journalRig) After(d time.Duration, _ *actor.PID, message any) {
	r.timers = append(r.timers, journalTimer{r.now.Plus(d), message})
	if m, ok := message.(retryWrite); ok {
		r.say("retry #%d in %v", m.ticket, d)
	}
}
func (r *journalRig) Props(actors.Kind, actor.Producer) *actor.Props { return nil }
func (r *journalRig) Panicked(*actor.PID, any, bool)                 {}
func (r *journalRig) Deposed(epoch uint64)                           { r.say("host <- deposed from epoch %d", epoch) }
func (r *journalRig) Moved(_ actors.Kind, from, event, to string) {
	r.say("%s --%s--> %s", from, event, to)
}
func (r *journalRig) Count(string, int64)           {}
func (r *journalRig) Took(string, time.Duration)    {}
func (r *journalRig) Load(uint64, *actor.PID)       {}
func (r *journalRig) Find(actors.Query, *actor.PID) {}
func (r *journalRig) Apply(epoch, ticket uint64, changes []actors.Change, _ *actor.PID) {
	r.tries[ticket] = changes
	r.say("store <- #%d under epoch %d: %s", ticket, epoch, named(changes))
}

type journalLog struct {
	actors.NoLog
	*journalRig
}

func (l journalLog) Info(format string, args ...any) { l.say("log: "+format, args...) }

func named(changes []actors.Change) string {
	var names []string
	for _, c := range changes {
		name := c.Job.GetId()
		if c.Node != nil {
			name += "node " + c.Node.Id
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func newJournalRig(edit func(*actors.Constants)) *journalRig {
	r := &journalRig{tries: map[uint64][]actors.Change{}}
	p := &protocol.Ports{Ports: actors.Ports{Host: r, Clock: r, Log: journalLog{journalRig: r},
		Constants: actors.DefaultConstants()}, Epoch: 3, Store: r,
		Unwritable: func(why string) { r.say("gateway <- unwritable: %q", why) }}
	edit(&p.Constants)
	r.j = New(p).(*Journal)
	return r
}

func (r *journalRig) tell(message any, sender *actor.PID) {
	r.j.Receive(told{rig: r, message: message, sender: sender})
}

// pass advances the clock and fires the timers in order.
func (r *journalRig) pass(d time.Duration) {
	end := r.now.Plus(d)
	for {
		next := -1
		for i, t := range r.timers {
			if t.at <= end && (next < 0 || t.at < r.timers[next].at) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		t := r.timers[next]
		r.timers = append(r.timers[:next], r.timers[next+1:]...)
		r.now = t.at
		r.tell(t.message, nil)
	}
	r.now = end
}

// TestJournalScenarios plays the Journal's golden scenarios: the messages that it gets and sends. The flag -rewrite
// rewrites them.
func TestJournalScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/journal", func(t *testing.T, path string) {
		r := newJournalRig(func(*actors.Constants) {})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r.said = nil
			r = r.step(t, d)
			decisions, submits := r.j.pending()
			if decisions+submits > 0 {
				r.say("waiting: %d decisions, %d submits", decisions, submits)
			}
			if len(r.said) == 0 {
				return "(nothing)\n"
			}
			return strings.Join(r.said, "\n") + "\n"
		})
	})
}

// step runs one line of a script: limits, write, answer, pass, tell.
func (r *journalRig) step(t *testing.T, d *datadriven.TestData) *journalRig {
	switch d.Cmd {
	case "limits":
		return newJournalRig(func(c *actors.Constants) {
			d.MaybeScanArgs(t, "batch", &c.JournalBatch)
			d.MaybeScanArgs(t, "batch-bytes", &c.JournalBatchBytes)
			d.MaybeScanArgs(t, "submits", &c.SubmitsQueued)
			d.MaybeScanArgs(t, "submit-bytes", &c.SubmitBytesQueued)
		})
	case "write":
		for _, line := range strings.Split(d.Input, "\n") {
			r.write(strings.Fields(line))
		}
	case "answer":
		r.answer(t, d)
	case "pass":
		var text string
		d.ScanArgs(t, "for", &text)
		length, err := time.ParseDuration(text)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		r.pass(length)
	case "tell": // a message type that the Journal does not know
		r.tell("good morning", nil)
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return r
}

// write sends one write: lane, job or node, and sender. The record is the tag.
func (r *journalRig) write(words []string) {
	lane := map[string]protocol.Lane{"decision": protocol.LaneDecisions, "submit": protocol.LaneSubmits}[words[0]]
	c := actors.Change{Job: &messages.JobRecord{Id: words[1]}}
	if name, isNode := strings.CutPrefix(words[1], "node-"); isNode {
		c = actors.Change{Node: &messages.NodeRecord{Id: name}}
	}
	var asker *actor.PID
	if len(words) > 2 {
		asker = actor.NewPID("here", words[2])
	}
	r.tell(protocol.Write{Change: c, Lane: lane, Tag: words[1]}, asker)
}

// answer sends the store's answer: one letter per change, an error, or the news of another leader.
func (r *journalRig) answer(t *testing.T, d *datadriven.TestData) {
	var a actors.Applied
	var letters string
	d.ScanArgs(t, "ticket", &a.Ticket)
	d.MaybeScanArgs(t, "verdicts", &letters)
	d.MaybeScanArgs(t, "error", &a.Err)
	a.Deposed = d.HasArg("deposed")
	for _, l := range letters {
		a.Verdicts = append(a.Verdicts, map[rune]actors.Verdict{'D': actors.Done, 'C': actors.Conflict}[l])
	}
	r.tell(a, nil)
}

func mustPanic(t *testing.T, what string, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	do()
}

func TestJournalBreaksLoudly(t *testing.T) {
	for what, answer := range map[string]actors.Applied{
		"one verdict too many": {Ticket: 1, Verdicts: []actors.Verdict{actors.Done, actors.Done}},
		"none at all":          {Ticket: 1},
		"no known verdict":     {Ticket: 1, Verdicts: []actors.Verdict{0}},
	} {
		mustPanic(t, what, func() {
			r := newJournalRig(func(*actors.Constants) {})
			r.write([]string{"decision", "a", "asker"})
			r.tell(answer, nil)
		})
	}
	mustPanic(t, "a write without a lane", func() {
		newJournalRig(func(*actors.Constants) {}).write([]string{"neither", "a"})
	})
}

// TestJournalWritesTheSameAgain checks that a repeated attempt is the same transaction: the same changes in the same
// order, even if more writes have come.
func TestJournalWritesTheSameAgain(t *testing.T) {
	r := newJournalRig(func(*actors.Constants) {})
	r.write([]string{"submit", "first"})
	r.tell(actors.Applied{Ticket: 1, Verdicts: []actors.Verdict{actors.Done}}, nil)
	for i := range 20 {
		r.write([]string{"submit", fmt.Sprint("s", i)})
	}
	r.tell(actors.Applied{Ticket: 2, Err: "gone"}, nil)
	for i := range 20 {
		r.write([]string{"decision", fmt.Sprint("d", i)})
	}
	r.pass(time.Minute)
	if len(r.tries[2]) == 0 || fmt.Sprint(r.tries[2]) != fmt.Sprint(r.tries[3]) {
		t.Fatalf("tried %s, then %s", named(r.tries[2]), named(r.tries[3]))
	}
	if r.j.idle() {
		t.Fatal("idle while a transaction is in doubt")
	}
	// The store may still use an earlier attempt after a later one was answered, so its changes stay as they were.
	handed := named(r.tries[2])
	last := r.j.ticket
	r.tell(actors.Applied{Ticket: last, Verdicts: slices.Repeat([]actors.Verdict{actors.Done}, len(r.tries[last]))}, nil)
	r.tell(
		actors.Applied{Ticket: r.j.ticket, Verdicts: slices.Repeat([]actors.Verdict{actors.Done}, len(r.tries[r.j.ticket]))},
		nil)
	if named(r.tries[2]) != handed {
		t.Fatalf("an earlier try was %s and is now %s", handed, named(r.tries[2]))
	}
}

// TestJournalIgnoresStaleTimers checks that a timer of an earlier attempt has no effect.
func TestJournalIgnoresStaleTimers(t *testing.T) {
	r := newJournalRig(func(*actors.Constants) {})
	r.write([]string{"decision", "a"})
	r.tell(actors.Applied{Ticket: 1, Err: "gone"}, nil)
	r.pass(250 * time.Millisecond)
	r.tell(actors.Applied{Ticket: 2, Err: "gone"}, nil)
	r.said = nil
	timers := len(r.timers)
	r.tell(retryWrite{1}, nil)
	r.tell(watchStore{r.j.watch - 1}, nil)
	if len(r.said) > 0 || len(r.timers) != timers {
		t.Fatalf("a stale timer made it say %q and set %d timers", r.said, len(r.timers)-timers)
	}
}

// TestJournalSetsFewTimers checks that the clock never holds more than one alarm and one pause for the Journal.
func TestJournalSetsFewTimers(t *testing.T) {
	r := newJournalRig(func(*actors.Constants) {})
	most := 0
	for i := range uint64(10_000) {
		r.write([]string{"decision", "a"})
		switch {
		case i%7 == 3:
			r.tell(actors.Applied{Ticket: r.j.ticket, Err: "gone"}, nil)
		case i%11 != 5:
			r.tell(actors.Applied{Ticket: r.j.ticket, Verdicts: []actors.Verdict{actors.Done}}, nil)
		}
		r.said = nil
		r.pass(time.Duration(i%3) * 100 * time.Millisecond)
		most = max(most, len(r.timers))
	}
	if most > 2 {
		t.Fatalf("%d timers at once", most)
	}
}

func TestLaneKeepsOrderAndMemory(t *testing.T) {
	var l lane
	next, size := 0, 0
	for i := range 100_000 {
		l.push(pending{tag: i, bytes: 1})
		if i%3 != 0 || l.len() > 200 {
			if got := l.pop().tag; got != next {
				t.Fatalf("popped %v, want %d", got, next)
			}
			next++
		}
		size = max(size, cap(l.waiting))
		if l.bytes != l.len() {
			t.Fatalf("%d bytes for %d writes", l.bytes, l.len())
		}
	}
	if size > 2048 {
		t.Fatalf("a lane of at most 200 has room for %d", size)
	}
}

func BenchmarkJournal(b *testing.B) {
	r := newJournalRig(func(*actors.Constants) {})
	w := protocol.Write{Change: actors.Change{Job: &messages.JobRecord{Id: "a", Spec: &messages.JobSpec{Name: "x"}}},
		Lane: protocol.LaneDecisions}
	b.ReportAllocs()
	for b.Loop() {
		r.tell(w, nil)
		r.tell(actors.Applied{Ticket: r.j.ticket, Verdicts: []actors.Verdict{actors.Done}}, nil)
		r.said, r.timers = r.said[:0], r.timers[:0]
		clear(r.tries)
	}
}
