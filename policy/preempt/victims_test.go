package preempt

import (
	"flag"
	"fmt"
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/topology"
)

var clusters = flag.Int("clusters", 300, "how many clusters TestVictims draws")

const gib = 1 << 30

func machine(i, racks int) topology.Machine {
	return topology.Machine{
		ID:      topology.NodeID(fmt.Sprintf("n%05d", i)),
		Place:   []string{"z", fmt.Sprintf("r%04d", i%racks)},
		Total:   topology.Resources{MilliCPU: 64_000, MemoryBytes: 512 * gib, MilliGPU: 8000},
		GPUType: "h100",
	}
}

// gang returns a gang with a number of tasks, each with a number of GPUs and the same fraction of a node.
func gang(replicas int32, gpus int64) topology.Gang {
	return topology.Gang{Replicas: replicas, Each: topology.Resources{MilliCPU: gpus * 4000, MemoryBytes: gpus * 16 * gib,
		MilliGPU: gpus * 1000}}
}

// prey is a random cluster full of gangs, and one waiting gang.
type prey struct {
	machines []topology.Machine
	all      []Candidate
	gang     topology.Gang
	group    []int   // of each candidate
	surplus  []int64 // of each group, in milli-GPUs; negative: no law
	shared   bool
}

func drawPrey(r *rand.Rand) *prey {
	p := &prey{shared: r.Intn(12) == 0}
	racks := 1 + r.Intn(3)
	for i := range 1 + r.Intn(8) {
		m := machine(i, racks)
		m.Total = topology.Resources{MilliCPU: 16_000, MemoryBytes: 64 * gib, MilliGPU: int64(1+r.Intn(4)) * 2000}
		p.machines = append(p.machines, m)
	}
	left := make([]topology.Resources, len(p.machines))
	for i := range left {
		left[i] = p.machines[i].Total
	}
	for range 2 + r.Intn(9) {
		c := Candidate{Victim: Victim{Job: topology.JobID(fmt.Sprintf("v%02d", len(p.all))), Lost: r.Int63n(1000)}}
		each := topology.Resources{MilliCPU: 1000 * r.Int63n(8), MilliGPU: 1000 * r.Int63n(7)}
		if p.shared && r.Intn(2) == 0 {
			each.MilliGPU = 250 * (1 + r.Int63n(3))
		}
		for range 1 + r.Intn(3) {
			at := r.Intn(len(p.machines))
			if each.IsZero() || !each.Within(left[at]) {
				continue
			}
			left[at] = left[at].Minus(each)
			slot := topology.Slot{Rank: topology.Rank(len(c.Room.Slots)), Node: p.machines[at].ID, Amount: each}
			c.Room.Slots = append(c.Room.Slots, slot)
		}
		if len(c.Room.Slots) > 0 {
			p.all, p.group = append(p.all, c), append(p.group, r.Intn(3))
			// Its shares do not fit on the devices.
			if n := len(p.all) - 1; !gives(p.view(0), topology.Placement{}) {
				p.all, p.group = p.all[:n], p.group[:n]
			}
		}
	}
	p.surplus = []int64{-1, -1, -1}
	if r.Intn(2) == 0 {
		p.surplus = []int64{-1, 1000 * r.Int63n(9), 1000 * r.Int63n(17)}
	}
	p.gang = topology.Gang{Replicas: int32(1 + r.Intn(4))}
	p.gang.Each = topology.Resources{MilliCPU: 1000 * (1 + r.Int63n(4)), MilliGPU: 1000 * r.Int63n(9)}
	p.gang.Required = []string{"", "", "rack", "node"}[r.Intn(4)]
	return p
}

// view returns the cluster without the stopped candidates.
func (p *prey) view(stopped int) *topology.Tree {
	f := topology.NewTree([]string{"zone", "rack"})
	for _, m := range p.machines {
		f.Join(m, m.Idle())
	}
	for i := range p.all {
		f.Take(p.all[i].Room)
	}
	for i := range p.all {
		if stopped>>i&1 == 1 { // other candidates keep their devices
			f.Give(p.all[i].Room)
		}
	}
	return f
}

// fits reports whether the gang fits without the stopped candidates. Without shares it only counts, and otherwise it
// places the gang in a new tree.
func (p *prey) fits(stopped int) bool {
	if p.shared {
		_, no := topology.Place(p.view(stopped), p.gang)
		return no == nil
	}
	units := map[string]int64{}
	for _, m := range p.machines {
		free := m.Total
		for i := range p.all {
			for _, s := range p.all[i].Room.Slots {
				if stopped>>i&1 == 0 && s.Node == m.ID {
					free = free.Minus(s.Amount)
				}
			}
		}
		n := free.MilliCPU / p.gang.Each.MilliCPU
		if p.gang.Each.MilliGPU > 0 {
			n = min(n, free.MilliGPU/p.gang.Each.MilliGPU)
		}
		units[map[string]string{"": "", "rack": m.Place[1], "node": string(m.ID)}[p.gang.Required]] += n
	}
	for _, n := range units { //order: any match suffices
		if n >= int64(p.gang.Replicas) {
			return true
		}
	}
	return false
}

// gpus returns the GPUs of a candidate.
func (p *prey) gpus(i int) (n int64) {
	for _, s := range p.all[i].Room.Slots {
		n += s.Amount.MilliGPU
	}
	return n
}

// lawful reports whether each group exceeds its quota, for each stopped candidate without the others.
func (p *prey) lawful(stopped int) bool {
	for g, surplus := range p.surplus {
		sum := int64(0)
		for i := range p.all {
			if stopped>>i&1 == 1 && p.group[i] == g {
				sum += p.gpus(i)
			}
		}
		for i := range p.all {
			if surplus >= 0 && stopped>>i&1 == 1 && p.group[i] == g && surplus-sum+p.gpus(i) <= 0 {
				return false
			}
		}
	}
	return true
}

// statute implements this rule as a Law.
type statute struct {
	p   *prey
	set int
}

func (s *statute) Add(i int) bool {
	if !s.p.lawful(s.set | 1<<i) {
		return false
	}
	s.set |= 1 << i
	return true
}
func (s *statute) Drop(i int)                     { s.set &^= 1 << i }
func (s *statute) Enough(topology.Placement) bool { return true }

func (p *prey) lost(set int) (n int64) {
	for i := range p.all {
		if set>>i&1 == 1 {
			n += p.all[i].Lost
		}
	}
	return n
}

// TestVictims compares the search with all sets of candidates. It finds a set exactly if there is one, without an
// unnecessary victim, at no more than twice the lowest cost, and usually at the lowest.
func TestVictims(t *testing.T) {
	found, optimal, none := 0, 0, 0
	for seed := range *clusters {
		p := drawPrey(rand.New(rand.NewSource(int64(seed))))
		best, any := int64(0), false
		for set := range 1 << len(p.all) {
			if lost := p.lost(set); (!any || lost < best) && p.lawful(set) && p.fits(set) {
				best, any = lost, true
			}
		}
		view, law := p.view(0), &statute{p: p}
		stop, place, ok := Victims(view, &p.gang, topology.Lent{}, p.all, law)
		set := 0
		for _, i := range stop {
			set |= 1 << i
		}
		lost := p.lost(set)
		if ok != any && !p.shared {
			t.Fatalf("seed %d: found %t, and there is one %t", seed, ok, any)
		}
		if law.set != 0 || !sameRoom(view, p.view(0)) {
			t.Fatalf("seed %d: the search has left something behind", seed)
		}
		if !ok {
			none++
			continue
		}
		room := p.fits(set) && (p.shared || gives(p.view(set), place)) && len(place.Slots) == int(p.gang.Replicas)
		if !room || !p.lawful(set) {
			t.Fatalf("seed %d: %v do not make room at %v", seed, stop, place)
		}
		if p.shared { // the device that becomes free is unknown until its node reports it
			continue
		}
		for _, i := range stop {
			if p.fits(set &^ (1 << i)) {
				t.Fatalf("seed %d: %s of %v is stopped in vain", seed, p.all[i].Job, stop)
			}
		}
		if found++; lost > 2*best {
			t.Fatalf("seed %d: %v cost %d, and %d would do", seed, stop, lost, best)
		}
		if lost == best {
			optimal++
		}
	}
	t.Logf("%d clusters: %d with victims, of which %d cost the least; %d without", *clusters, found, optimal, none)
	if optimal*100 < found*99 || found < *clusters/4 || none < *clusters/20 {
		t.Errorf("of %d found %d cost the least, %d had none", found, optimal, none)
	}
}

// TestVictimsOfShares checks a selection in steps from many candidates with shares of devices, in groups with quotas.
func TestVictimsOfShares(t *testing.T) {
	for seed := range 60 {
		r := rand.New(rand.NewSource(int64(seed)))
		p := &prey{shared: true, surplus: []int64{500 * r.Int63n(9), 500 * r.Int63n(9), -1}}
		for i := range 4 {
			p.machines = append(p.machines, machine(i, 1))
		}
		for i := range 60 {
			each := topology.Resources{MilliCPU: 500, MilliGPU: 500}
			c := Candidate{Victim: Victim{Job: topology.JobID(fmt.Sprintf("v%02d", i)), Lost: r.Int63n(1000)}}
			c.Room.Slots = []topology.Slot{{Node: p.machines[i%4].ID, Amount: each}}
			p.all, p.group = append(p.all, c), append(p.group, r.Intn(3))
		}
		p.gang = gang(int32(6+r.Intn(20)), 1)
		stop, _, ok := Victims(p.view(0), &p.gang, topology.Lent{}, p.all, &statute{p: p})
		set := 0
		for _, i := range stop {
			set |= 1 << i
		}
		if ok && (!p.lawful(set) || !p.fits(set)) {
			t.Fatalf("seed %d: %v do not make room", seed, stop)
		}
	}
}

func sameRoom(a, b *topology.Tree) bool {
	same := true
	a.Walk(func(m topology.Machine, free topology.Capacity, _ string) {
		other, ok := b.Free(m.ID)
		same = same && ok && fmt.Sprint(free) == fmt.Sprint(other)
	})
	return same
}

// gives reports whether all amounts of a placement are free.
func gives(f *topology.Tree, p topology.Placement) bool {
	f.Take(p)
	ok := true
	f.Walk(func(_ topology.Machine, free topology.Capacity, _ string) {
		ok = ok && free.MilliCPU >= 0 && free.MemoryBytes >= 0 && free.WholeGPUs >= 0
	})
	return ok
}

// BenchmarkVictims measures a search for 64 tasks with eight GPUs or one, on 10,000 full nodes with one job each or
// eight.
func BenchmarkVictims(b *testing.B) {
	machines := 10_000
	if testing.Short() {
		machines = 200
	}
	for _, each := range []int64{8, 1} {
		for _, member := range []int64{8, 1} {
			b.Run(fmt.Sprintf("jobs=%d/members=%d", each, member), func(b *testing.B) {
				benchVictims(b, machines, each, member)
			})
		}
	}
}

func benchVictims(b *testing.B, machines int, each, member int64) {
	r := rand.New(rand.NewSource(1))
	f := topology.NewTree([]string{"zone", "block", "rack"})
	var all []Candidate
	for i := range machines {
		m := machine(i, 1)
		rack := i / 16
		m.Place = []string{fmt.Sprint("z", rack/200), fmt.Sprintf("b%03d", rack/20), fmt.Sprintf("r%05d", rack)}
		f.Join(m, m.Idle())
		for range 8 / each {
			id := topology.JobID(fmt.Sprintf("v%06d", len(all)))
			c := Candidate{Victim: Victim{Job: id, Lost: each * (1000 + r.Int63n(1_000_000))}}
			c.Room.Slots = []topology.Slot{{Node: m.ID, Amount: gang(1, each).Each}}
			f.Take(c.Room)
			all = append(all, c)
		}
	}
	g := gang(64, member)
	b.ResetTimer()
	for range b.N {
		stop, _, ok := Victims(f, &g, topology.Lent{}, all, nil)
		if !ok || int64(len(stop)) != 64*member/each && each <= member {
			b.Fatal(len(stop), ok)
		}
	}
}
