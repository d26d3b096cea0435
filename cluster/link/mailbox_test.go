package link

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// invoked records the calls of a mailbox to its actor.
type invoked struct{ said []string }

func (i *invoked) InvokeSystemMessage(m any) { i.said = append(i.said, fmt.Sprintf("system %v", m)) }
func (i *invoked) InvokeUserMessage(m any) {
	if m == "bad" {
		panic("why")
	}
	i.said = append(i.said, fmt.Sprint(m))
}
func (i *invoked) EscalateFailure(why, on any) {
	i.said = append(i.said, fmt.Sprintf("failed on %v: %v", on, why))
}

// atOnce runs a mailbox on the goroutine that posts to it.
type atOnce struct{}

func (atOnce) Schedule(run func()) { run() }
func (atOnce) Throughput() int     { return 1 }

// TestMailboxIsSafeFromTheFirstMoment checks messages that are posted between the registration of an actor and the
// start of its mailbox. They are kept in order and received after Started. Proto.Actor's own mailbox panics then, and
// never runs again.
func TestMailboxIsSafeFromTheFirstMoment(t *testing.T) {
	m, actorOf := Mailbox(), &invoked{}
	m.PostUserMessage("a")
	m.PostUserMessage("b")
	m.RegisterHandlers(actorOf, atOnce{})
	m.PostUserMessage("c")
	m.PostSystemMessage("started")
	m.Start()
	m.PostUserMessage("d")
	if got, want := strings.Join(actorOf.said, ", "), "system started, a, b, c, d"; got != want {
		t.Errorf("it ran %s, want %s", got, want)
	}

	defer func() {
		if recover() == nil {
			t.Error("the stock mailbox is as safe now: ours has no reason left")
		}
	}()
	actor.Unbounded()().PostUserMessage("a")
}

// later records the scheduled turns.
type later struct{ turns []func() }

func (l *later) Schedule(run func()) { l.turns = append(l.turns, run) }
func (*later) Throughput() int       { return 3 }

// turn runs the oldest turn, and returns how many are left.
func (l *later) turn() int {
	run := l.turns[0]
	l.turns = l.turns[1:]
	run()
	return len(l.turns)
}

func begun(i actor.MessageInvoker, d actor.Dispatcher) actor.Mailbox {
	m := Mailbox()
	m.RegisterHandlers(i, d)
	m.Start()
	return m
}

func TestMailboxGivesWayAfterABurst(t *testing.T) {
	turns, actorOf := &later{}, &invoked{}
	m := begun(actorOf, turns)
	for i := range 5 {
		m.PostUserMessage(i)
	}
	if len(turns.turns) != 1 || m.UserMessageCount() != 5 {
		t.Fatalf("%d turns for %d messages, want 1 for 5", len(turns.turns), m.UserMessageCount())
	}
	if left := turns.turn(); left != 1 || len(actorOf.said) != 3 {
		t.Fatalf("after a burst %d turns are scheduled and %q handled, want 1 and three messages", left, actorOf.said)
	}
	if left := turns.turn(); left != 0 || len(actorOf.said) != 5 || m.UserMessageCount() != 0 {
		t.Fatalf("at the end %d turns are scheduled and %q handled, want none and five messages", left, actorOf.said)
	}
}

// TestMailboxStopsAtAFailureUntilResumed checks a message on which the actor fails. It is reported once, and the rest
// waits until the supervisor resumes the actor. A system message passes meanwhile, before all others.
func TestMailboxStopsAtAFailureUntilResumed(t *testing.T) {
	actorOf := &invoked{}
	m := begun(actorOf, atOnce{})
	m.PostSystemMessage(&actor.SuspendMailbox{})
	for _, word := range []string{"a", "bad", "b"} {
		m.PostUserMessage(word)
	}
	m.PostSystemMessage("stop")
	m.PostSystemMessage(&actor.ResumeMailbox{})
	if got, want := strings.Join(actorOf.said, ", "), "system stop, a, failed on bad: why, b"; got != want {
		t.Errorf("it ran %s, want %s", got, want)
	}
}

// apart runs each turn on a separate goroutine.
type apart struct{ running sync.WaitGroup }

func (a *apart) Schedule(run func()) { a.running.Go(run) }
func (*apart) Throughput() int       { return 7 }

// TestMailboxLosesNothing checks that every message is received once, those of one sender in order, and never two at a
// time. The type invoked has no lock, so the race detector would notice.
func TestMailboxLosesNothing(t *testing.T) {
	const posters, each = 8, 500
	turns, actorOf := &apart{}, &invoked{}
	m := begun(actorOf, turns)
	var posting sync.WaitGroup
	for p := range posters {
		posting.Go(func() {
			for i := range each {
				m.PostUserMessage(fmt.Sprintf("%d %04d", p, i))
			}
		})
	}
	posting.Wait()
	turns.running.Wait()
	if len(actorOf.said) != posters*each || m.UserMessageCount() != 0 {
		t.Fatalf("%d messages were received and %d wait, want %d and none",
			len(actorOf.said), m.UserMessageCount(), posters*each)
	}
	for p := range posters {
		of := slices.DeleteFunc(slices.Clone(actorOf.said), func(s string) bool {
			return !strings.HasPrefix(s, fmt.Sprint(p, " "))
		})
		if len(of) != each || !slices.IsSorted(of) {
			t.Errorf("from poster %d, %d messages were received, in order: %v", p, len(of), slices.IsSorted(of))
		}
	}
}
