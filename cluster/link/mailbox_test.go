package link

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// invoked notes what a mailbox has its actor do.
type invoked struct{ said []string }

func (i *invoked) InvokeSystemMessage(m any) { i.said = append(i.said, fmt.Sprintf("system %v", m)) }
func (i *invoked) InvokeUserMessage(m any)   { i.said = append(i.said, fmt.Sprint(m)) }
func (i *invoked) EscalateFailure(why, on any) {
	i.said = append(i.said, fmt.Sprint("failed ", why, on))
}

// atOnce runs a mailbox on whoever posts to it.
type atOnce struct{}

func (atOnce) Schedule(run func()) { run() }
func (atOnce) Throughput() int     { return 1 }

// The registry names an actor before its mailbox knows what to run. What is
// posted in that moment is kept, in its order, and heard after Started; what the
// stock mailbox does then is panic, and never run again.
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
