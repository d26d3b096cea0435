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

// BenchmarkGang measures the time from submit to running: placement, both phases, the memory store, the ledgers and the
// start barrier, over in-process actors. The clock is read when the job becomes running. The benchmark's own timer
// would stop the world for longer than a small gang takes. The cancel after each gang is not in the time, but in the
// allocations.
//
// The benchmark waits for the nodes' reports before each gang. An idle processor wakes up slowly, with caches that
// others have used, so the time of a gang would depend on the host as much as on the code. Both cases are measured.
func BenchmarkGang(b *testing.B) {
	for _, machines := range []int{1, 8, 64} {
		benchGang(b, fmt.Sprintf("machines=%d", machines), machines, awake)
	}
	benchGang(b, "machines=64,asleep", 64, time.Sleep)
}

// awake waits and keeps every processor busy.
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

// benchGang uses one cluster for the trial and all runs of a benchmark. A new cluster for each run would leave the last
// one alive.
func benchGang(b *testing.B, name string, machines int, pause func(time.Duration)) {
	var g *gangs
	b.Run(name, func(b *testing.B) {
		if g == nil {
			g = newGangs(b, machines)
			// the leader is ready, and all nodes have joined
			pause(actors.DefaultConstants().RecoveryWait + time.Second)
		}
		g.cluster.tb = b
		b.ReportAllocs()
		b.ResetTimer()
		var took, used time.Duration
		for range b.N {
			t, u := g.one(b)
			took, used = took+t, used+u
			// the nodes' reports free the capacity
			pause(2*actors.DefaultConstants().ReportDelay + 5*time.Millisecond)
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

// one submits a gang and cancels it. It returns the time until the gang ran, by the clock and in CPU time.
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

// cpu returns the CPU time of this process, which is the cost of a gang on a host with other work.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// submitted reads answers until the answer to a submit.
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
