package test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
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
// Between two gangs the machines' reports are awaited. A processor that sleeps
// meanwhile wakes up slow, with caches that others have used: what a gang takes
// then tells of the machine as much as of the code. Both are measured.
func BenchmarkGang(b *testing.B) {
	for _, machines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) { benchGang(b, machines, awake) })
	}
	b.Run("machines=64,asleep", func(b *testing.B) { benchGang(b, 64, time.Sleep) })
}

// awake is a wait that keeps the processor at work.
func awake(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
		runtime.Gosched()
	}
}

func benchGang(b *testing.B, machines int, pause func(time.Duration)) {
	c := newInprocess(b)
	c.lead()
	for i := range machines {
		c.join(i)
	}
	client, answers := c.client()
	time.Sleep(actors.DefaultConstants().RecoveryWait + time.Second) // the leader is ready, all have joined
	b.ReportAllocs()
	b.ResetTimer()
	var took, used time.Duration
	for i := range b.N {
		used -= cpu()
		began := time.Now()
		c.ask(client, actors.SchedulerPath, &messages.Submit{
			Principal: &messages.Principal{Name: "bench"}, RequestId: fmt.Sprint(i), Spec: gangSpec(int32(machines)), AllowInfeasible: true,
		})
		took += c.await("running").Sub(began)
		used += cpu()
		id := submitted(b, answers)
		c.ask(client, actors.SchedulerPath, &messages.Cancel{Principal: &messages.Principal{Name: "bench"}, Job: id, Reason: "next"})
		c.await("over")
		pause(2*actors.DefaultConstants().ReportDelay + 5*time.Millisecond) // the machines' reports make the room
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
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
	limit := time.After(10 * time.Second)
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
