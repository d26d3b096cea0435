package policy

// This file has the benchmarks of the pass.

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// sizes returns the cluster sizes to measure. With -short, it returns only the smallest, which suffices to check that a
// benchmark works.
func sizes(all ...int) []int {
	if testing.Short() {
		return all[:1]
	}
	return all
}

// fullCluster returns a cluster with a little free capacity on every node, into which no waiting gang of the benchmarks
// fits.
func fullCluster(machines int) *topology.Tree {
	r := rand.New(rand.NewSource(3))
	f := topology.NewTree([]string{"zone", "block", "rack"})
	for i := range machines {
		m := machine(i, 1)
		rack := i / 16
		m.Place = []string{fmt.Sprint("z", rack/200), fmt.Sprintf("b%03d", rack/20), fmt.Sprintf("r%05d", rack)}
		c := m.Idle()
		c.WholeGPUs = int32(r.Intn(4))
		c.MilliCPU = int64(r.Intn(20_000))
		f.Join(m, c)
	}
	return f
}

// hungryShape returns one of many shapes that do not fit, with different sizes, amounts and levels.
func hungryShape(i int) topology.Gang {
	g := gang(int32(2+i%10*7), int64(4+i%5))
	g.Each.MemoryBytes += int64(i) * gib / 8
	if i%4 == 0 {
		g = gang(int32(48+i%10), 1)
		g.Required = "rack"
	}
	g.Each.MilliCPU += int64(i) * 10
	return g
}

func hungryQueue(waitingJobs, shapes int) *Queue {
	q := NewQueue()
	for i := range waitingJobs {
		q.Add(waiting(fmt.Sprintf("j%06d", i), int32(i%3), int64(i), hungryShape(i%shapes)))
	}
	return q
}

// BenchmarkSchedulePass measures a pass in which nothing fits, after one node has gained a little capacity, so that
// every shape must be examined again.
func BenchmarkSchedulePass(b *testing.B) {
	for _, machines := range sizes(10000, 100000) {
		f := fullCluster(machines)
		for _, n := range sizes(1000, 10000, 100000) {
			q := hungryQueue(n, 100)
			b.Run(fmt.Sprintf("machines=%d/waiting=%d", machines, n), func(b *testing.B) {
				benchmarkPass(b, f, q, 1)
			})
		}
	}
}

// BenchmarkSchedulePassChanged measures the same pass after a number of nodes have changed.
func BenchmarkSchedulePassChanged(b *testing.B) {
	f := fullCluster(10000)
	q := hungryQueue(10000, 100)
	for _, changed := range []int{0, 1, 10, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("machines=10000/waiting=10000/changed=%d", changed), func(b *testing.B) {
			benchmarkPass(b, f, q, changed)
		})
	}
}

// BenchmarkSchedulePassFirst measures the first pass of a scheduler, without any lens.
func BenchmarkSchedulePassFirst(b *testing.B) {
	f := fullCluster(10000)
	for b.Loop() {
		b.StopTimer()
		fresh, q := f.Clone(), hungryQueue(10000, 100)
		b.StartTimer()
		if d := Plan(fresh, q, 0); len(d.Admit) > 0 {
			b.Fatal("something fits")
		}
	}
}

// BenchmarkSchedulePassShapes measures a queue in which every job has a different shape.
func BenchmarkSchedulePassShapes(b *testing.B) {
	f := fullCluster(10000)
	q := hungryQueue(10000, 10000)
	b.Run(fmt.Sprintf("machines=10000/waiting=10000/shapes=%d", q.shapes()), func(b *testing.B) {
		benchmarkPass(b, f, q, 1)
	})
}

func benchmarkPass(b *testing.B, f *topology.Tree, q *Queue, changed int) {
	ids := make([]topology.NodeID, 10000)
	for i := range ids {
		ids[i] = machine(i, 1).ID
	}
	Plan(f, q, 0)
	round := 0
	more := func(round, i int, by int64) {
		id := ids[(round*131+i*7919)%len(ids)]
		c, _ := f.Free(id)
		c.MilliCPU += by
		f.SetFree(id, c)
	}
	// Each node that gains capacity in one round loses it in the next.
	change := func() {
		for i := range changed {
			more(round, i, -8)
		}
		round++
		for i := range changed {
			more(round, i, 8)
		}
	}
	for i := range changed {
		more(0, i, 8)
	}
	for range 4 {
		change()
		Plan(f, q, 0)
	}
	b.ReportAllocs()
	looked, passes := 0, 0
	for b.Loop() {
		change()
		d := Plan(f, q, 0)
		if len(d.Admit) > 0 {
			b.Fatal("something fits")
		}
		looked += d.Looked
		passes++
	}
	b.ReportMetric(float64(looked)/float64(passes), "shapes/op")
}

// BenchmarkExplain explains one job of a long queue, on a cluster where jobs with time limits hold every node.
func BenchmarkExplain(b *testing.B) {
	const machines = 10000
	f, q := fullCluster(machines), hungryQueue(10000, 100)
	Plan(f, q, 0)
	holders, ends := topology.NewHolders(), int64(0)
	f.Walk(func(m topology.Machine, free topology.Capacity, _ string) {
		ends++
		holders.Set(m.ID, []topology.Holder{{
			Job:    topology.JobID("run-" + m.ID),
			Amount: topology.Resources{MilliGPU: m.Total.MilliGPU - free.MilliGPU(), MilliCPU: m.Total.MilliCPU - free.MilliCPU},
			EndsBy: ends,
		}})
	})
	jobs := q.waits()
	b.Run("machines=10000/waiting=10000", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			a, ok := Explain(f, q, jobs[i*37%len(jobs)].Job, holders)
			if !ok || a.Refusal == nil {
				b.Fatal("it fits")
			}
		}
	})
}

// BenchmarkPlanAdmit measures a pass that fills an idle cluster from the queue.
func BenchmarkPlanAdmit(b *testing.B) {
	const machines = 10000
	f := topology.NewTree([]string{"block", "rack"})
	for i := range machines {
		m := machine(i, 1)
		m.Place = []string{fmt.Sprintf("b%03d", i/320), fmt.Sprintf("r%05d", i/16)}
		f.Join(m, m.Idle())
	}
	b.Run(fmt.Sprintf("machines=%d/gang=8", machines), func(b *testing.B) {
		gangs := 0
		for b.Loop() {
			b.StopTimer()
			q := NewQueue()
			for i := range machines / 8 {
				q.Add(waiting(fmt.Sprintf("j%05d", i), 0, int64(i), gang(8, 8)))
			}
			b.StartTimer()
			d := Plan(f, q, 0)
			b.StopTimer()
			gangs += len(d.Admit)
			for _, a := range d.Admit {
				f.Give(a.Placement)
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(gangs)/b.Elapsed().Seconds(), "gangs/s")
	})
}

// BenchmarkSchedulePassMemory measures the most expensive pass. Every GPU is free, and no gang fits because of memory.
// Each of the hundred shapes requests another amount of memory, so that no two share a lens.
func BenchmarkSchedulePassMemory(b *testing.B) {
	for _, machines := range sizes(10000, 100000) {
		f := fullCluster(machines)
		f.Walk(func(m topology.Machine, free topology.Capacity, _ string) {
			free.WholeGPUs, free.MemoryBytes = 8, 16*gib
			f.SetFree(m.ID, free)
		})
		q := NewQueue()
		for i := range 10000 {
			g := gang(4, 2)
			g.Each.MilliCPU, g.Each.MemoryBytes = 1, int64(17+i%100)*gib
			q.Add(waiting(fmt.Sprintf("j%06d", i), 0, int64(i), g))
		}
		for _, changed := range []int{1, 10000} {
			b.Run(fmt.Sprintf("machines=%d/waiting=10000/shapes=%d/changed=%d", machines, q.shapes(), changed),
				func(b *testing.B) {
					benchmarkPass(b, f, q, changed)
				})
		}
	}
}
