package topology

import (
	"fmt"
	"math/rand"
	"testing"
)

// TestPlaceOnFew has a gang that a tight placement spreads over small gaps. The test checks that it is placed on as few
// other nodes as a limit allows, and that nodes of own do not count.
func TestPlaceOnFew(t *testing.T) {
	for name, c := range map[string]struct {
		free   []int64 // GPUs of each node
		gang   Gang
		own    map[NodeID]int
		others int
		ok     bool
	}{
		"small holes":           {[]int64{3, 3, 3, 3, 8}, tasks(12), nil, 3, true},
		"too few":               {[]int64{3, 3, 3, 3, 8}, tasks(12), nil, 2, false},
		"own nodes are free":    {[]int64{3, 3, 3, 3, 8}, tasks(12), map[NodeID]int{"n0": 1, "n1": 2}, 1, true},
		"own nodes do not help": {[]int64{3, 3, 3, 3, 8}, tasks(12), map[NodeID]int{"n4": 1}, 1, false},
		"none":                  {[]int64{8}, tasks(1), nil, 0, false},
		"whole nodes":           {[]int64{2, 8, 7}, Gang{Total: gpus(11), Split: SplitWhole}, nil, 2, true},
	} {
		f := holes(c.free)
		if tight, _ := Place(f, c.gang); len(tight.Nodes()) <= len(c.own)+c.others {
			t.Errorf("%s: the tightest placement keeps the bound: %v", name, tight)
		}
		p, ok := PlaceOnFew(f, &c.gang, Lent{}, c.own, c.others)
		if ok != c.ok {
			t.Errorf("%s: placed is %t: %v", name, ok, p)
		}
		if n := otherNodes(p, c.own); n > c.others {
			t.Errorf("%s: %d other nodes are used: %v", name, n, p)
		}
	}
}

// TestPlaceOnFewDrawn checks random clusters. The placement must respect the bound and the request of the gang. A gang
// that fits without a bound must be placed if all nodes are allowed.
func TestPlaceOnFewDrawn(t *testing.T) {
	placed := 0
	for n := range 3000 {
		r := rand.New(rand.NewSource(int64(n)))
		w := randomWorld(r)
		f := w.tree(inOrder(len(w.spots)))
		_, refusal := Place(f, w.gang)
		others := r.Intn(len(w.spots) + 1)
		p, ok := PlaceOnFew(f, &w.gang, Lent{}, nil, others)
		switch {
		case ok && refusal != nil:
			t.Fatalf("seed %d: placed %v although Place refuses it: %v", n, p, refusal)
		case ok && otherNodes(p, nil) > others:
			t.Fatalf("seed %d: %d nodes are allowed: %v", n, others, p)
		case ok:
			if problem := w.wrong(p); problem != "" {
				t.Fatalf("seed %d: %s: %v", n, problem, p)
			}
			placed++
		case refusal == nil && others == len(w.spots) && w.gang.Required != NodeLevel:
			t.Fatalf("seed %d: not placed although all nodes are allowed", n)
		}
	}
	if placed < 200 {
		t.Errorf("only %d gangs were placed", placed)
	}
}

func otherNodes(p Placement, own map[NodeID]int) (n int) {
	for _, id := range p.Nodes() {
		if own[id] == 0 {
			n++
		}
	}
	return n
}

func gpus(n int64) Resources { return Resources{MilliGPU: n * WholeGPU} }

// tasks returns a gang of n tasks with one GPU each.
func tasks(n int32) Gang { return Gang{Replicas: n, Each: gpus(1)} }

// holes returns a cluster of one rack in which some GPUs of each node are free. A node with two free GPUs has only
// these two, and all other nodes have eight.
func holes(free []int64) *Tree {
	f := NewTree([]string{"rack"})
	for i, n := range free {
		m := Machine{ID: NodeID(fmt.Sprintf("n%d", i)), Place: []string{"r"}, Total: gpus(8)}
		if n == 2 {
			m.Total = gpus(n)
		}
		capacity := m.Idle()
		capacity.WholeGPUs = int32(n)
		f.Join(m, capacity)
	}
	return f
}
