package topology

// This file has the benchmarks of placement.

import (
	"fmt"
	"math/rand"
	"testing"
)

const (
	rackSize  = 16
	blockSize = 20 // racks
	zoneSize  = 10 // blocks
)

// sizes returns the cluster sizes to measure. With -short, it returns only the smallest, which suffices to check that a
// benchmark works.
func sizes(all ...int) []int {
	if testing.Short() {
		return all[:1]
	}
	return all
}

// machineAtIndex returns a node of a uniform cluster: 8 GPUs, 128 cores, 2 TiB.
func machineAtIndex(i int) Machine {
	rack := i / rackSize
	return Machine{
		ID: NodeID(fmt.Sprintf("n%06d", i)),
		Place: []string{
			fmt.Sprintf("z%02d", rack/blockSize/zoneSize),
			fmt.Sprintf("b%03d", rack/blockSize),
			fmt.Sprintf("r%05d", rack),
		},
		Total:   Resources{MilliCPU: 128_000, MemoryBytes: 2048 * gib, MilliGPU: 8 * WholeGPU},
		GPUType: "h100",
		Labels:  []Label{{"pool", "train"}},
	}
}

// busyCapacity returns the free capacity in a cluster that is 70% full and fragmented. Of ten nodes, two are free, two
// have one to seven free GPUs, and the others are full.
func busyCapacity(r *rand.Rand, m Machine) Capacity {
	c := m.Idle()
	switch draw := r.Intn(100); {
	case draw < 20:
		return c
	case draw < 42:
		c.WholeGPUs = int32(1 + r.Intn(7))
	default:
		c.WholeGPUs = 0
	}
	c.MilliCPU = int64(c.WholeGPUs)*16_000 - int64(r.Intn(4_000))*int64(c.WholeGPUs)/7 + 4_000
	c.MemoryBytes = int64(c.WholeGPUs)*256*gib - int64(r.Intn(64))*gib + 64*gib
	return c
}

func uniformCluster(machines int, busy bool) *Tree {
	r := rand.New(rand.NewSource(1))
	f := NewTree([]string{"zone", "block", "rack"})
	for i := range machines {
		m := machineAtIndex(i)
		if busy {
			f.Join(m, busyCapacity(r, m))
		} else {
			f.Join(m, m.Idle())
		}
	}
	return f
}

// gangOf returns a gang of whole nodes.
func gangOf(machines int) Gang {
	return Gang{
		Replicas: int32(machines),
		Each:     Resources{MilliCPU: 96_000, MemoryBytes: 1024 * gib, MilliGPU: 8 * WholeGPU},
		GPUType:  "h100",
		Selector: []Label{{"pool", "train"}},
	}
}

// BenchmarkPlace places a gang of K whole nodes. Between two placements one node changes, so that the index must be
// updated.
func BenchmarkPlace(b *testing.B) {
	for _, machines := range sizes(1000, 10000, 100000) {
		f := uniformCluster(machines, true)
		for _, k := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("machines=%d/gang=%d", machines, k), func(b *testing.B) {
				benchmarkPlace(b, f, gangOf(k), machines)
			})
		}
	}
}

func benchmarkPlace(b *testing.B, f *Tree, g Gang, machines int) {
	Place(f, g)
	for range 2 {
		flip(f, machines-1)
	}
	b.ReportAllocs()
	placed, i := 0, 0
	for b.Loop() {
		i++
		flip(f, i*7919%machines)
		if _, refusal := Place(f, g); refusal == nil {
			placed++
		}
	}
	b.ReportMetric(float64(placed)/float64(b.N), "placed/op")
}

var benchIDs []NodeID

// flip changes the free capacity of one node by one core, in alternating directions.
func flip(f *Tree, i int) {
	for len(benchIDs) <= i {
		benchIDs = append(benchIDs, machineAtIndex(len(benchIDs)).ID)
	}
	c, _ := f.Free(benchIDs[i])
	c.MilliCPU ^= 1000
	f.SetFree(benchIDs[i], c)
}

// BenchmarkPlaceCold places a gang with a new rate.
func BenchmarkPlaceCold(b *testing.B) {
	for _, machines := range sizes(1000, 10000, 100000) {
		f := uniformCluster(machines, true)
		for _, k := range []int{1, 512} {
			b.Run(fmt.Sprintf("machines=%d/gang=%d", machines, k), func(b *testing.B) {
				g := gangOf(k)
				for b.Loop() {
					f.lenses = newLensCache()
					Place(f, g)
				}
			})
		}
	}
}

// BenchmarkPlaceFlat places gangs in a cluster without named racks.
func BenchmarkPlaceFlat(b *testing.B) {
	const machines = 10000
	r := rand.New(rand.NewSource(1))
	f := NewTree([]string{"rack"})
	for i := range machines {
		m := machineAtIndex(i)
		m.Place = nil
		f.Join(m, busyCapacity(r, m))
	}
	for _, k := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("machines=%d/gang=%d", machines, k), func(b *testing.B) {
			benchmarkPlace(b, f, gangOf(k), machines)
		})
	}
}

// BenchmarkPlaceTotal places totals in whole nodes and in any free resources.
func BenchmarkPlaceTotal(b *testing.B) {
	f := uniformCluster(10000, true)
	for _, split := range []Split{SplitWhole, SplitAny} {
		for _, gpus := range []int64{12, 500, 4100} {
			name := map[Split]string{SplitWhole: "whole", SplitAny: "any"}[split]
			b.Run(fmt.Sprintf("machines=10000/split=%s/gpus=%d", name, gpus), func(b *testing.B) {
				each := Resources{MilliCPU: 8_000, MemoryBytes: 128 * gib, MilliGPU: WholeGPU}
				benchmarkPlace(b, f, Gang{Total: each.times(gpus), Split: split}, 10000)
			})
		}
	}
}

// BenchmarkFill fills an idle cluster with gangs of whole nodes.
func BenchmarkFill(b *testing.B) {
	for _, machines := range sizes(10000, 100000) {
		b.Run(fmt.Sprintf("machines=%d/gang=8", machines), func(b *testing.B) {
			f := uniformCluster(machines, false)
			g := gangOf(8)
			var running []Placement
			gangs := 0
			b.ReportAllocs()
			for b.Loop() {
				for {
					p, refusal := Place(f, g)
					if refusal != nil {
						break
					}
					f.Take(p)
					running = append(running, p)
				}
				b.StopTimer()
				gangs += len(running)
				for _, p := range running {
					f.Give(p)
				}
				running = running[:0]
				b.StartTimer()
			}
			b.ReportMetric(float64(gangs)/b.Elapsed().Seconds(), "gangs/s")
		})
	}
}

// BenchmarkRefuse refuses a gang that is too large for one rack.
func BenchmarkRefuse(b *testing.B) {
	f := uniformCluster(10000, true)
	g := gangOf(15)
	g.Required = "rack"
	var r Refusal
	PlaceInto(f, &g, &r)
	i := 0
	flip(f, 9999)
	b.ReportAllocs()
	for b.Loop() {
		i++
		flip(f, i*7919%10000)
		if _, ok := PlaceInto(f, &g, &r); ok {
			b.Fatal("placed")
		}
	}
}

// BenchmarkExplain explains a gang on a cluster where jobs with time limits hold every node.
func BenchmarkExplain(b *testing.B) {
	for _, machines := range sizes(10000, 100000) {
		planned := uniformCluster(machines, true)
		planned.Lead()
		f := NewTree([]string{"zone", "block", "rack"}) // as in the Mirror
		f.Follow(planned.Tell())
		holders, jobs := NewHolders(), int64(0)
		f.Walk(func(m Machine, free Capacity, _ string) {
			used := Resources{MilliGPU: m.Total.MilliGPU - free.MilliGPU(), MilliCPU: m.Total.MilliCPU - free.MilliCPU}
			if used.MilliGPU > 0 {
				jobs++
				holders.Set(m.ID, []Holder{{Job: JobID("job-" + m.ID[:5]), Amount: used, EndsBy: jobs}})
			}
		})
		for _, shape := range []struct {
			name string
			gang Gang
		}{
			{"rack", withLevel(gangOf(15), "rack")},
			{"cluster", gangOf(machines * 6 / 10)},
			{"whole", Gang{Total: gangOf(1).Each.times(int64(machines) / 2), Split: SplitWhole}},
		} {
			b.Run(fmt.Sprintf("machines=%d/gang=%s", machines, shape.name), func(b *testing.B) {
				var e Explanation
				for b.Loop() {
					e = Explain(f, shape.gang, holders)
				}
				if e.Refusal == nil {
					b.Fatal("it fits")
				}
			})
		}
	}
}

func withLevel(g Gang, level string) Gang {
	g.Required = level
	return g
}

// BenchmarkJoin lets nodes join one by one, and tries a placement of each of twenty rates after every join, like a
// cluster that starts while jobs wait.
func BenchmarkJoin(b *testing.B) {
	for _, machines := range sizes(1000, 10000) {
		b.Run(fmt.Sprintf("machines=%d/rates=20", machines), func(b *testing.B) {
			for b.Loop() {
				f := NewTree([]string{"zone", "block", "rack"})
				for i := range machines {
					m := machineAtIndex(i)
					f.Join(m, m.Idle())
					for rate := range int64(20) {
						g := gangOf(machines + 1)
						g.Each.MilliCPU -= rate
						Place(f, g)
					}
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*machines), "µs/join")
		})
	}
}

// BenchmarkWhatIf checks whether a gang would fit if eight running gangs ended, and rolls the change back. A preemption
// needs many such checks.
func BenchmarkWhatIf(b *testing.B) {
	for _, machines := range sizes(10000, 100000) {
		b.Run(fmt.Sprintf("machines=%d/ended=8", machines), func(b *testing.B) {
			f := uniformCluster(machines, false)
			var running []Placement
			for {
				p, refusal := Place(f, gangOf(8))
				if refusal != nil {
					break
				}
				f.Take(p)
				running = append(running, p)
			}
			i := 0
			for b.Loop() {
				mark := f.Mark()
				for n := range 8 {
					f.Give(running[(i*53+n*7)%len(running)])
				}
				i++
				if _, refusal := Place(f, gangOf(64)); refusal != nil {
					b.Fatal(refusal)
				}
				f.Rollback(mark)
			}
		})
	}
}

// BenchmarkClone copies the view.
func BenchmarkClone(b *testing.B) {
	for _, machines := range sizes(10000, 100000) {
		f := uniformCluster(machines, true)
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			for b.Loop() {
				f.Clone()
			}
		})
	}
}
