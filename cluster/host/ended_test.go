package host

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// heavy is an actor with a large value.
type heavy struct{ data *[1 << 16]byte }

func (*heavy) Receive(actor.Context) {}

// TestEndedActorsAreCollected checks that nothing of an ended actor stays in memory, neither its state nor its Props,
// however many actors its parent had at once.
func TestEndedActorsAreCollected(t *testing.T) {
	const many = 100
	h := New(NewLog(io.Discard, false))
	p := &actors.Ports{System: h.System(), Host: h}
	var left atomic.Int64
	tracked := func() *[1 << 16]byte {
		left.Add(1)
		data := new([1 << 16]byte)
		runtime.SetFinalizer(data, func(*[1 << 16]byte) { left.Add(-1) })
		return data
	}
	type end struct{}
	var ended atomic.Int64
	parent := actor.ReceiveFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			for i := range many {
				from := tracked()
				actors.Spawn(ctx, p, actors.KindJob, fmt.Sprint("c", i), func() actor.Actor {
					from[0]++
					return &heavy{tracked()}
				})
			}
		case end:
			for _, c := range ctx.Children() {
				ctx.Stop(c)
			}
		case *actor.Terminated:
			ended.Add(1)
		}
	})
	pid := h.System().Root.Spawn(h.Props(actors.KindScheduler, func() actor.Actor { return parent }))
	h.System().Root.Send(pid, end{})
	for limit := time.Now().Add(time.Minute); ended.Load() < many || left.Load() > 0; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(limit) {
			t.Fatalf("%d of %d actors have ended, and %d of %d things of theirs are left", ended.Load(), many, left.Load(),
				2*many)
		}
	}
	runtime.KeepAlive(h)
}
