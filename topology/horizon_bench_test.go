package topology

// This file has the benchmarks of the horizon.

import (
	"fmt"
	"math/rand"
	"testing"
)

// fullCluster returns a cluster in which every node is full, with the end of each job: a gang with eight devices, or
// two jobs with four. The returned function fills a node again. Jobs that are renewed in turn end before their limits.
func fullCluster(machines int) (*Tree, *Horizon, func(i int)) {
	r := rand.New(rand.NewSource(1))
	f := uniformCluster(machines, false)
	h := NewHorizon(f)
	now := int64(0)
	settle := func(i int) {
		m := machineAtIndex(i)
		f.SetFree(m.ID, Capacity{})
		var ends []End
		for pieces := int64(1 + r.Intn(2)); len(ends) < int(pieces); {
			at := now + int64(machines)*100 + r.Int63n(1e6)
			amount := Resources{m.Total.MilliCPU / pieces, m.Total.MemoryBytes / pieces, m.Total.MilliGPU / pieces}
			ends = append(ends, End{Amount: amount, Hard: at, Likely: at})
		}
		h.Set(m.ID, ends)
		now += 100
	}
	for i := range machines {
		settle(i)
	}
	return f, h, settle
}

// BenchmarkEarliest asks for the earliest time of a gang. Between two questions, the jobs of one node end and others
// start.
func BenchmarkEarliest(b *testing.B) {
	for _, machines := range sizes(1000, 10000, 100000) {
		_, h, settle := fullCluster(machines)
		one := Gang{Replicas: 64, Each: Resources{MilliCPU: 8000, MilliGPU: WholeGPU}}
		for _, q := range []struct {
			name string
			gang Gang
		}{
			{"1", gangOf(1)},
			{"rack-8", withLevel(gangOf(8), "rack")},
			{"64", gangOf(64)},
			{"zone-64", withLevel(gangOf(64), "zone")},
			{"64-of-1", one},
			{"node-4", withLevel(Gang{Replicas: 4, Each: one.Each}, NodeLevel)},
			{"total-100", Gang{Total: one.Each.times(100), Split: SplitWhole}},
			{"rack-total-100", withLevel(Gang{Total: one.Each.times(100), Split: SplitWhole}, "rack")},
		} {
			b.Run(fmt.Sprintf("machines=%d/gang=%s", machines, q.name), func(b *testing.B) {
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					i++
					settle(i * 7919 % machines)
					if _, _, ok := h.Earliest(&q.gang, int64(i)*100, ByLimit); !ok {
						b.Fatal("never")
					}
				}
			})
		}
	}
}

// BenchmarkEarliestMixed asks for a total in whole nodes, some of which lack a device, so that times are tried.
func BenchmarkEarliestMixed(b *testing.B) {
	const machines = 10000
	f, h, settle := fullCluster(machines)
	for i := 0; i < machines; i += 100 {
		m := machineAtIndex(i)
		m.Total.MilliGPU -= WholeGPU
		f.Join(m, Capacity{})
	}
	g := Gang{Total: Resources{MilliCPU: 800_000, MilliGPU: 100 * WholeGPU}, Split: SplitWhole}
	i := 0
	for b.Loop() {
		i++
		settle(i * 7919 % machines)
		if _, _, ok := h.Earliest(&g, int64(i)*100, ByLimit); !ok {
			b.Fatal("never")
		}
	}
}

// BenchmarkKeep plans a reservation again: it releases the reserved capacity and searches the earliest time again.
func BenchmarkKeep(b *testing.B) {
	f, h, settle := fullCluster(10000)
	for _, k := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("gang=%d", k), func(b *testing.B) {
			g, i := gangOf(k), 0
			for b.Loop() {
				i++
				settle(i * 7919 % 10000)
				f.Unkeep("train")
				_, p, _ := h.Earliest(&g, int64(i)*100, ByLimit)
				f.Keep("train", p)
			}
		})
	}
}

// BenchmarkPromises measures a pass with a hundred reservations of different shapes. The jobs of one node end and
// others start, and each reservation is planned again next to the earlier ones.
func BenchmarkPromises(b *testing.B) {
	for _, machines := range sizes(10000) {
		f, h, settle := fullCluster(machines)
		var gangs []Gang
		var ids []KeepID
		for i := range 100 {
			g := gangOf([]int{1, 1, 1, 8, 16}[i%5])
			g.Each.MilliCPU -= int64(i)
			if i%2 == 0 {
				g.Required = "rack"
			}
			gangs, ids = append(gangs, g), append(ids, KeepID(fmt.Sprint("job-", i)))
		}
		b.Run(fmt.Sprintf("machines=%d/promises=100", machines), func(b *testing.B) {
			i := 0
			for b.Loop() {
				i++
				settle(i * 7919 % machines)
				for _, id := range ids {
					f.Unkeep(id)
				}
				for n := range gangs {
					_, p, ok := h.Earliest(&gangs[n], int64(i)*100, ByLimit)
					if !ok {
						b.Fatal("never")
					}
					f.Keep(ids[n], p)
				}
			}
		})
	}
}
