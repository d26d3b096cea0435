package goodput

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// This file tests the limits of a meter: the number of names, the number of attempts, and times from other clocks.

// ownersOf returns the owner rows of a day, each with its sum.
func ownersOf(m *Meter, now, day int64) map[string]int64 {
	all := map[string]int64{}
	for _, r := range m.Rows(now) {
		if r.Kind == Owners && r.Day == day && r.Name != "" {
			all[r.Name] = r.Sum()
		}
	}
	return all
}

// TestNamesAreToldApart checks that the first names of each day get separate rows, also after a change of the leader.
// All other names share one row.
func TestNamesAreToldApart(t *testing.T) {
	m := New(begin)
	owned := func(i int) Unit {
		return Unit{Joined: m.At(), Capacity: 1000, Shares: []Share{{
			Class: Kept, Milli: 1000, Owner: fmt.Sprintf("o%03d", i),
		}}}
	}
	const day, few = begin / dayMs, 30
	set := func(from, to int) {
		for i := from; i < to; i++ {
			m.Set(m.At(), topology.NodeID(fmt.Sprintf("n%03d", i)), owned(i))
		}
	}
	check := func(what string, now, day int64, many int, rest int64) {
		t.Helper()
		got := ownersOf(m, now, day)
		last := fmt.Sprintf("o%03d", maxNames-2) // the row without a name counts too
		if len(got) != many || got[Rest] != rest || many == maxNames && got[last] == 0 {
			t.Errorf("%s: %d names, of which the rest has %d, want %d and %d: %v", what, len(got), got[Rest], many, rest,
				slices.Sorted(maps.Keys(got)))
		}
	}
	set(0, maxNames-1)
	check("as many as may be", begin+second, day, maxNames-1, 0)
	set(maxNames-1, maxNames+few)
	check("more", begin+2*second, day, maxNames, (few+1)*1000*second)
	now := begin + 24*hour
	check("on the next day", now, day+1, maxNames, (few+1)*22*hour*1000)

	rows, until := m.Rows(now), now
	m = New(now)
	m.Recall(begin, until, rows)
	set(200, 200+few)
	check("of a next leader", now+second, day+1, maxNames, (few+1)*22*hour*1000+few*1000*second)
	m = New(now)
	m.Recall(begin, until, slices.DeleteFunc(rows, func(r Row) bool { return r.Day == day+1 }))
	set(200, 200+few)
	check("those of a day that is new to it", now+second, day+1, few, 0)
}

// TestAttemptsAreForgotten checks when the meter removes an attempt that has left its nodes: after its end was
// reported, or after a day. It never removes a running attempt.
func TestAttemptsAreForgotten(t *testing.T) {
	idle := Unit{Joined: begin, Type: "a", Capacity: 8000, Idle: 8000}
	m := New(begin)
	m.Set(begin, "n1", productive(1000, token(1), begin))
	m.Set(begin, "n2", productive(1000, token(2), begin))
	m.Set(begin, "n3", productive(1000, token(3), begin))
	m.Set(begin, "n4", productive(1000, token(4), begin))
	now := begin + hour
	m.Ended(now, token(1), 3, true)
	if m.runs[token(1)] == nil {
		t.Error("one that a machine still has is forgotten")
	}
	m.Set(now, "n1", idle)
	m.Set(now, "n2", idle)
	m.Ended(now, token(2), 3, true)
	m.Set(now, "n3", idle)
	m.Ended(now, token(9), 3, true) // unknown attempt
	left := func(want ...topology.Token) {
		t.Helper()
		if len(m.runs) != len(want) {
			t.Errorf("%d attempts are known, want %v", len(m.runs), want)
		}
		for _, one := range want {
			if m.runs[one] == nil {
				t.Errorf("%v is forgotten", one)
			}
		}
	}
	left(token(3), token(4))
	m.Rows(begin + 12*hour) // the next day
	left(token(3), token(4))
	m.Rows(begin + 26*hour)
	left(token(4))
	m.Rows(begin + 100*24*hour)
	left(token(4))
	m.Ended(m.At(), token(4), 3, true)
	if sum := totals(m, m.At(), Cluster); sum.Of[Productive] != hour*1000 {
		t.Errorf("lost %d, and %d are productive", sum.Of[Lost], sum.Of[Productive])
	}
	m.Ended(m.At(), token(4), 5, true) // the end is reported again
	m.Set(m.At(), "n4", productive(2000, token(4), begin))
	m.Rows(m.At() + hour)
	m.Ended(m.At(), token(4), 5, true)
	if sum := totals(m, m.At(), Cluster); sum.Lost[5] != 2*hour*1000 {
		t.Errorf("%d are lost by what came after its end, want two hours", sum.Lost[5])
	}
}

// TestTimeNeverGoesBack checks that an earlier time changes no sum.
func TestTimeNeverGoesBack(t *testing.T) {
	m := New(begin)
	m.Set(begin, "n1", productive(8000, token(1), begin))
	m.Rows(begin + 3*hour)
	m.Set(begin+hour, "n1", Unit{Joined: begin, Type: "a", Capacity: 8000, Idle: 8000})
	if m.At() != begin+3*hour {
		t.Errorf("it went back to %d", m.At()-begin)
	}
	if sum := totals(m, begin+4*hour, Cluster); sum.Of[Productive] != 24*hour*1000 || sum.Of[Unwanted] != 8*hour*1000 {
		t.Errorf("%v", sum.Of)
	}
}

// TestTimesOfOthers checks times that do not fit the meter's clock. Examples are a record or a removal in the future,
// an attempt that began before the measurement, and one that ended after the record. Only the measured part counts.
func TestTimesOfOthers(t *testing.T) {
	counted := func(now, until int64) (*Meter, func() Amounts) {
		m := New(now)
		row := Row{Kind: Cluster, Day: begin / dayMs}
		row.Of[Productive], row.Capacity = 8*hour*1000, 8*hour*1000
		owner, queue := row, row
		owner.Kind, owner.Name, queue.Kind, queue.Name = Owners, "eva", Queues, "q"
		m.Recall(begin, until, []Row{row, owner, queue})
		return m, func() Amounts { return totals(m, m.At(), Cluster) }
	}
	m, sum := counted(begin+hour, begin+hour)
	m.LostSince(&Past{Owner: "eva", Queue: "q", Began: begin - hour, Ended: begin + hour, Milli: 1000, Cause: 4})
	if got := sum(); got.Lost[4] != hour*1000 {
		t.Errorf("%d are lost of one that began before anybody counted", got.Lost[4])
	}
	m.LostSince(&Past{Owner: "eva", Queue: "q", Began: begin, Ended: begin + 90*minute, Milli: 1000, Cause: 5})
	m.LostSince(&Past{Owner: "eva", Queue: "q", Began: begin, Ended: begin + 30*minute, Milli: 1000, Cause: 6})
	if got := sum(); got.Lost[5] != hour*1000 || got.Lost[6] != 30*minute*1000 {
		t.Errorf("%v are lost of those that ended after the record, and before", got.Lost[5:7])
	}
	m.Removed(1000, begin, begin+5*hour)
	if got := sum(); got.Of[Broken] != 0 || got.Capacity != 8*hour*1000 {
		t.Errorf("%d are broken of a machine that is removed in time to come", got.Of[Broken])
	}
	m, sum = counted(begin+30*minute, begin+hour) // the clock of the new leader is behind
	m.LostSince(&Past{Owner: "eva", Queue: "q", Began: begin, Ended: begin + 50*minute, Milli: 1000, Cause: 4})
	if got := sum(); got.Lost[4] != 30*minute*1000 {
		t.Errorf("%d are lost of one that ended in time to come", got.Lost[4])
	}
	m.Set(begin+40*minute, "n1", Unit{Joined: begin, Capacity: 1000, Idle: 1000})
	if got := sum(); got.Capacity != 8*hour*1000+10*minute*1000 {
		t.Errorf("%d is the capacity, by a clock that is behind", got.Capacity)
	}
}
