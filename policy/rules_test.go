package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// This file tests the counts of shares and the records of firm promises against independent counts.

// TestWhatIsSaidOfAFirmPromise checks that a promise is recorded if it differs from its record, or if there are more
// overruns than recorded. While capacity is lent on an estimate, one more is recorded, up to the maximum.
func TestWhatIsSaidOfAFirmPromise(t *testing.T) {
	for _, c := range []struct {
		slips, said, loans int
		unsaid             bool
		want               int // overruns; negative: not recorded
	}{
		{0, 0, 0, false, -1}, {0, 0, 0, true, 0}, {0, 0, 1, false, 1}, {0, 1, 1, false, -1}, {1, 1, 0, false, -1},
		{1, 0, 0, false, 1}, {1, 1, 1, false, 2}, {2, 2, 1, false, -1}, {2, 1, 1, false, 2}, {0, 1, 0, true, 1},
		{2, 2, 3, true, 2},
	} {
		j := bare(100, estimate.Pool{Name: "p", Size: 8000})
		p := &promise{e: &entry{Waiting: Waiting{Job: "f"}}, bound: 150, firm: true}
		p.e.slips, p.e.loans, p.slips, p.unsaid = c.slips, make([]loan, c.loans), c.said, c.unsaid
		j.firm = []*promise{p}
		j.sayFirm()
		if c.want < 0 && len(j.d.Firm) > 0 || c.want >= 0 && (len(j.d.Firm) != 1 || j.d.Firm[0].Slips != c.want) {
			t.Errorf("%+v: said %+v", c, j.d.Firm)
		}
		if len(j.d.Firm) == 1 && j.d.Firm[0].Left != 50 {
			t.Errorf("%d are left until its bound", j.d.Firm[0].Left)
		}
		if j.d.Firm = nil; p.unsaid {
			t.Errorf("%+v: it is said, and unsaid", c)
		}
		if j.sayFirm(); len(j.d.Firm) > 0 {
			t.Errorf("%+v: it is said again: %+v", c, j.d.Firm)
		}
	}
	if left(topology.Never, 5) != topology.Never || left(5, 5) != 1 || left(7, 5) != 2 || left(3, 5) != 1 {
		t.Error("what is left until an instant is wrong")
	}
}

// TestBoundsOfAPromise checks that a bound only moves earlier, and that the published latest start follows the limits.
// A reservation without a bound must last for a fixed time.
func TestBoundsOfAPromise(t *testing.T) {
	const never = topology.Never
	for _, c := range []struct {
		bound, limits, now int64
		blind, stops       bool
		latest             int64
	}{
		{bound: 10, limits: 10, now: 8, latest: 8}, {bound: 10, limits: 10, now: 12, latest: 12},
		{bound: never, limits: never, now: 9, latest: 9}, {bound: never, limits: never, now: never, latest: never},
		{bound: 10, limits: 10, now: never, latest: never}, {bound: 10, limits: 10, now: never, blind: true, latest: 10},
		{bound: never, limits: never, now: never, stops: true, latest: never},
	} {
		j := bare(1000, estimate.Pool{Name: "p", Size: 8000})
		p := &promise{e: &entry{}, bound: c.bound, limits: c.limits, firm: true, made: 500}
		p.blind = c.blind
		if c.stops {
			p.stops = []stop{{}}
		}
		p.limitedBy(c.now)
		kept := int64(never)
		if c.latest == never && !c.stops {
			kept = 500 + int64(j.settings.KeepMost)
		}
		if p.bound != min(c.bound, c.now) || p.latest() != c.latest || j.keptUntil(p) != kept ||
			p.unsaid != (c.bound == never && c.now != never) {
			t.Errorf("%+v: bound %d, latest %d, kept until %d, unsaid %v", c, p.bound, p.latest(), j.keptUntil(p), p.unsaid)
		}
	}
}

// TestStoppingBefore checks that only victims of earlier promises are returned.
func TestStoppingBefore(t *testing.T) {
	j := bare(0, estimate.Pool{Name: "p", Size: 8000})
	for order := range uint64(5) {
		p := &promise{e: &entry{}, firm: true, firmly: firmly{order: order}}
		p.e.Job = topology.JobID(fmt.Sprint("w", order))
		p.stops = []stop{{Victim: preempt.Victim{Job: topology.JobID(fmt.Sprint("v", order))}}}
		if order == 3 {
			j.away[p.e.Job] = p
		} else if order != 2 {
			j.firm = append(j.firm, p)
		}
	}
	for before, want := range []string{"[]", "[v0]", "[v0 v1]", "[v0 v1]", "[v0 v1 v3]", "[v0 v1 v4 v3]"} {
		if got := fmt.Sprint(j.Stopping(uint64(before))); got != want {
			t.Errorf("before %d: %s, want %s", before, got, want)
		}
	}
}

// TestLeftOnce checks that a place which a promise has left is reserved once, even if the promise leaves it several
// times before that is on disk.
func TestLeftOnce(t *testing.T) {
	j := bare(0, estimate.Pool{Name: "p", Size: 8000})
	at := func(nodes ...topology.NodeID) (p topology.Placement) {
		for _, n := range nodes {
			p.Slots = append(p.Slots, topology.Slot{Node: n, Amount: topology.Resources{MilliGPU: 1000}})
		}
		return p
	}
	j.leave("w", at("n1", "n1", "n2"))
	j.leave("w", at("n1", "n3"))
	j.leave("w", at("n1", "n1", "n2"))
	j.leave("v", at("n9"))
	var got []topology.NodeID
	for _, s := range j.unwritten["w"] {
		got = append(got, s.Node)
	}
	if slices.Sort(got); fmt.Sprint(got) != "[n1 n1 n2 n3]" || len(j.unwritten["v"]) != 1 {
		t.Errorf("%v, %v", got, j.unwritten)
	}
}
