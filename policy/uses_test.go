package policy

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// named returns a queue by name.
func named(s *share.Tree, name string) *share.Branch {
	h := s.Leaf(name, "")
	for h.Parent != nil && h.Parent.Name == name {
		h = h.Parent
	}
	return h
}

// TestUsesGoOn gives a new planner the stored usage and the running jobs. The test checks that its counts equal those
// of the last one: in a queue, below another queue, and between owners. Nothing decays while there is no leader.
func TestUsesGoOn(t *testing.T) {
	tree := []share.QueueSpec{{Name: "top"}, {Name: "a", Parent: "top"}, {Name: "fair", Order: num(share.Fair)}}
	s := obeying(t, OnlyFIFO(), 1, tree...)
	job := func(j *Judgement, id, queue, owner string, since, now int64) {
		gang := topology.Gang{Replicas: 1, Each: topology.Resources{MilliGPU: 2000}}
		traits := estimate.Traits{Queue: queue, Owner: owner, Size: 2000}
		j.Occupies(Holding{Job: topology.JobID(id), Gang: gang, Traits: traits, Since: since}, now)
	}
	const at = 1000 * second
	job(s.j, "over", "a", "ann", 0, at)
	job(s.j, "own", "top", "ann", 0, at)
	job(s.j, "bo", "fair", "bo", 0, at)
	job(s.j, "cy", "fair", "cy", 0, at)
	now := int64(at + 500_000*second)
	for _, id := range []topology.JobID{"over", "own", "bo"} {
		s.j.Ended(id, 1)
	}
	uses := s.j.Uses(now)
	got := []string{}
	for _, u := range uses {
		got = append(got, u.Queue+"/"+u.Owner)
	}
	if want := []string{"a/", "fair/bo", "top/"}; !slices.Equal(got, want) {
		t.Fatalf("handed on are %v, want %v: what runs is counted by whoever comes next", got, want)
	}
	next := obeying(t, OnlyFIFO(), 1, tree...)
	const later = 7 * second // of another clock
	next.j.Recollect(uses, later)
	job(next.j, "cy", "fair", "cy", later-(now-at), later)
	for _, name := range []string{"top", "a", "fair"} {
		was, is := named(s.j.shares, name).Counts(now), named(next.j.shares, name).Counts(later)
		if d := was - is; d < -3 || d > 3 || is == 0 {
			t.Errorf("%s had used %d, and the next planner counts %d", name, was, is)
		}
	}
	owners := func(j *Judgement, owner string, at int64) int64 { return j.shares.Leaf("fair", owner).Counts(at) }
	for _, owner := range []string{"bo", "cy"} {
		if was, is := owners(s.j, owner, now), owners(next.j, owner, later); was-is > 3 || is-was > 3 || is == 0 {
			t.Errorf("%s had used %d, and the next planner counts %d", owner, was, is)
		}
	}
}

// TestNever checks that a job exceeds a limit in any case if it does so with nothing else running, in its queue or an
// ancestor.
func TestNever(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 8, share.QueueSpec{Name: "top", Limit: gpus(16)},
		share.QueueSpec{Name: "a", Parent: "top", Owner: share.PerOwner{Amounts: gpus(8), Machines: num[int64](1)}},
		share.QueueSpec{Name: "none", Owner: share.PerOwner{Running: num[int64](0)}})
	for _, c := range []struct {
		queue    string
		replicas int32
		apart    bool
		want     string
	}{
		{"top", 16, false, ""},
		{"top", 17, false, "it takes 17 gpu, and top has at most 16"},
		{"a", 8, false, ""},
		{"a", 9, false, "it takes 9 gpu, and one owner in a has at most 8"},
		{"a", 2, true, "it takes 2 machines, and one owner in a has at most 1"},
		{"none", 1, false, "it takes 1 running jobs, and one owner in none has at most 0"},
		{"", 17, false, "it takes 17 gpu, and top has at most 16"},
	} {
		gang := topology.Gang{Replicas: c.replicas, Apart: c.apart, Each: topology.Resources{MilliGPU: 1000}}
		got := ""
		if over := s.j.Never(&gang, &estimate.Traits{Queue: c.queue, Owner: "ann"}); over != nil {
			got = over.Never()
		}
		if got != c.want {
			t.Errorf("%d in %q: %q, want %q", c.replicas, c.queue, got, c.want)
		}
	}
}
