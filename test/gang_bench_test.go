package test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

func gangSpec(machines int32) *messages.JobSpec {
	return &messages.JobSpec{
		Name: "gang", Image: "host", Command: []string{"true"},
		Gang: &messages.GangSpec{ReplicasMin: machines, ReplicasMax: machines},
		Each: &messages.Resources{MilliCpu: 32_000, MemoryBytes: 256 << 30, MilliGpu: 8_000},
	}
}

// BenchmarkGang measures submit → running: placement, both phases, the memory
// store, the ledgers and the start barrier, over in-process actors. The clock is
// read where the job becomes running: stopping the benchmark's own would stop the
// world as well, for longer than a small gang takes. The cancel that makes room
// for the next gang is not in the time, but in the allocations.
//
// Before each gang the machines' reports are awaited. A processor that sleeps
// meanwhile wakes up slow, with caches that others have used: what a gang takes then depends on the machine as much as
// on the code. Both are measured.
func BenchmarkGang(b *testing.B) {
	for _, machines := range []int{1, 8, 64} {
		benchGang(b, fmt.Sprintf("machines=%d", machines), machines, awake)
	}
	benchGang(b, "machines=64,asleep", 64, time.Sleep)
}

// awake is a wait that keeps every processor at work.
func awake(d time.Duration) {
	end := time.Now().Add(d)
	work := func() {
		for time.Now().Before(end) {
			runtime.Gosched()
		}
	}
	for range runtime.GOMAXPROCS(0) - 1 {
		go work()
	}
	work()
}

// benchGang has one cluster for all that the benchmark asks for, its trial of one
// gang and the rest: recreated, the one before would live on beside it.
func benchGang(b *testing.B, name string, machines int, pause func(time.Duration)) {
	var g *gangs
	b.Run(name, func(b *testing.B) {
		if g == nil {
			g = newGangs(b, machines)
			pause(actors.DefaultConstants().RecoveryWait + time.Second) // the leader is ready, all have joined
		}
		g.cluster.tb = b
		b.ReportAllocs()
		b.ResetTimer()
		var took, used time.Duration
		for range b.N {
			t, u := g.one(b)
			took, used = took+t, used+u
			pause(2*actors.DefaultConstants().ReportDelay + 5*time.Millisecond) // the machines' reports make the room
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
	})
	if g != nil {
		g.cluster.close()
	}
}

// gangs is a cluster and the client that submits to it.
type gangs struct {
	cluster *inprocess
	spec    *messages.JobSpec
	client  *actor.PID
	answers chan any
	asked   int
}

func newGangs(tb testing.TB, machines int) *gangs {
	c := newInprocess(tb)
	c.lead()
	for i := range machines {
		c.join(i)
	}
	client, answers := c.client()
	return &gangs{cluster: c, spec: gangSpec(int32(machines)), client: client, answers: answers}
}

// one submits a gang and cancels it, and answers what it took until it ran, by
// the clock and by the processors.
func (g *gangs) one(tb testing.TB) (took, used time.Duration) {
	who := &messages.Principal{Name: "bench"}
	g.asked++
	used = -cpu()
	began := time.Now()
	g.cluster.ask(g.client, actors.SchedulerPath, &messages.Submit{
		Principal: who, RequestId: fmt.Sprint(g.asked), Spec: g.spec, AllowInfeasible: true,
	})
	took = g.cluster.await("running").Sub(began)
	used += cpu()
	id := submitted(tb, g.answers)
	g.cluster.ask(g.client, actors.SchedulerPath, &messages.Cancel{Principal: who, Job: id, Reason: "next"})
	g.cluster.await("over")
	return took, used
}

// cpu is what this process has used so far: what a gang costs on a machine that
// has other things to do as well.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// submitted reads answers up to that of a submit.
func submitted(tb testing.TB, answers chan any) string {
	limit := time.After(pace.Of(10 * time.Second))
	for {
		select {
		case m := <-answers:
			if r, ok := m.(*messages.SubmitReply); ok {
				if r.Outcome.Code != messages.Code_CODE_OK {
					tb.Fatalf("submit: %v", r.Outcome)
				}
				return r.Job
			}
		case <-limit:
			tb.Fatal("no answer to a submit")
		}
	}
}
