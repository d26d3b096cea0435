package store

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

func benched(b *testing.B) *Memory {
	m := NewMemory()
	if _, err := m.Lead("bench"); err != nil {
		b.Fatal(err)
	}
	return m
}

func spec() *messages.JobSpec {
	return &messages.JobSpec{
		Name: "train", Queue: "research", Image: "host", Command: []string{"torchrun", "train.py"},
		Gang: &messages.GangSpec{ReplicasMin: 64, ReplicasMax: 64}, Each: &messages.Resources{
			MilliCpu: 64000, MemoryBytes: 512 << 30, MilliGpu: 8000,
		},
	}
}

func mustDo(b *testing.B, m *Memory, changes []actors.Change) {
	verdicts, err := m.Apply(1, changes)
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range verdicts {
		if v != actors.Done {
			b.Fatal("a conflict: ", m.Broken())
		}
	}
}

func BenchmarkApplySubmits(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			m := benched(b)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				changes := make([]actors.Change, batch)
				for i := range changes {
					n++
					j := submitted(fmt.Sprintf("j%09d", n), uint64(n))
					j.Spec = spec()
					changes[i].Job = j
				}
				mustDo(b, m, changes)
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "submits/s")
		})
	}
}

// wholeLife returns the writes of one job: submit, COMMIT, started, ENDED, finished.
func wholeLife(n, places int, withSpec *messages.JobSpec) [][]actors.Change {
	id := fmt.Sprintf("j%09d", n)
	write := uint64(0)
	job := func(edit func(*messages.JobRecord)) *messages.JobRecord {
		write++
		j := submitted(id, uint64(n))
		j.Spec, j.Revision, j.WrittenBy = withSpec, write, &messages.Token{Epoch: uint64(n), Counter: write}
		edit(j)
		return j
	}
	attempt := func(started, exits, end bool) []*messages.AttemptRecord {
		a := &messages.AttemptRecord{
			Job: id, Token: &messages.Token{Epoch: 1, Counter: uint64(n)}, Run: 1, Places: make([]*messages.Place, places),
		}
		for i := range a.Places {
			a.Places[i] = &messages.Place{Rank: int32(i), Node: fmt.Sprintf("n%05d", i), MachineId: "m",
				Grant: &messages.Grant{Rank: int32(i),
					Amount: &messages.Resources{MilliGpu: 1000}, Gpus: []*messages.GpuShare{
						{GpuId: "GPU-5f2c0b6e-8d6a-4b1f-9a61-2f6a4ae0c1aa", Milli: 1000},
					}}}
			if exits {
				a.Places[i].Exit = &messages.Exit{Rank: int32(i), Kind: messages.ExitKind_EXIT_KIND_EXITED}
			}
		}
		if started {
			a.StartedUnixMs = 1
		}
		if end {
			a.End = &messages.End{Cause: messages.Cause_CAUSE_SUCCEEDED}
		}
		return []*messages.AttemptRecord{a}
	}
	active := func(j *messages.JobRecord) { j.State = messages.JobState_JOB_STATE_ACTIVE }
	over := func(j *messages.JobRecord) {
		j.State, j.FinishedUnixMs = messages.JobState_JOB_STATE_SUCCEEDED, int64(n)
	}
	return [][]actors.Change{
		{{Job: job(func(*messages.JobRecord) {})}},
		{{Job: job(active), Attempts: attempt(false, false, false)}},
		{{Job: job(active), Attempts: attempt(true, false, false)}},
		{{Job: job(over), Attempts: attempt(true, true, true)}},
	}
}

func BenchmarkApplyWholeLife(b *testing.B) {
	for _, places := range []int{1, 64} {
		b.Run(fmt.Sprintf("places=%d", places), func(b *testing.B) {
			m := benched(b)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				for _, changes := range wholeLife(n, places, spec()) {
					mustDo(b, m, changes)
				}
			}
		})
	}
}

// BenchmarkLoad measures a new leader's load. Its cost does not grow with the number of finished jobs.
func BenchmarkLoad(b *testing.B) {
	many := 100_000
	if testing.Short() { // only to check that the benchmark runs
		many = 1_000
	}
	for _, finished := range []int{0, many} {
		b.Run(fmt.Sprintf("live=1000/finished=%d", finished), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			m := benched(b)
			for n := 1; n <= finished+1000; n++ {
				life := wholeLife(n, 1, spec())
				if n > finished {
					life = life[:2]
				}
				for _, changes := range life {
					mustDo(b, m, changes)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportAllocs()
			for b.Loop() {
				if l, err := m.Load(1); err != nil || len(l.Jobs) != 1000 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(finished+1000), "B/job")
		})
	}
}
