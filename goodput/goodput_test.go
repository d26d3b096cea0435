package goodput

import (
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/topology"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 3600 * second
	begin  = 20_000*dayMs + 22*hour
)

func token(n uint64) topology.Token { return topology.Token{Epoch: 1, Counter: n} }

// productive returns a node with eight GPUs, a part of which an attempt uses.
func productive(milli int64, t topology.Token, began int64) Unit {
	return Unit{Joined: begin, Type: "a", Capacity: 8000, Idle: 8000 - milli, Shares: []Share{{
		Class: Productive, Milli: milli, Owner: "eva", Queue: "q", Token: t, Began: began}}}
}

// totals returns the sums over all days of a kind.
func totals(m *Meter, now int64, kind Kind) (sum Amounts) {
	for _, r := range m.Rows(now) {
		if r.Kind == kind {
			sum.Plus(&r.Amounts)
		}
	}
	return sum
}

func TestClasses(t *testing.T) {
	m := New(begin)
	m.Set(begin, "n1", productive(6000, token(1), begin))
	m.Want(begin+hour, Wants{Types: []string{"a"}})
	m.Ended(begin+3*hour, token(1), 3, true)
	m.Set(begin+3*hour, "n1", Unit{Joined: begin, Type: "a", Capacity: 8000, Idle: 8000})
	for kind := range Kinds {
		sum := totals(m, begin+4*hour, kind)
		if want := (32 * hour * 1000); sum.Capacity != want || sum.Sum() != want {
			t.Errorf("%d: %d of %d, want %d", kind, sum.Sum(), sum.Capacity, want)
		}
		want := [Classes]int64{Lost: 18 * hour * 1000, Unwanted: 2 * hour * 1000, Wanted: 12 * hour * 1000}
		if sum.Of != want || sum.Lost[3] != want[Lost] {
			t.Errorf("%d: %v, want %v", kind, sum.Of, want)
		}
	}
}

// TestCannotBe checks that a node counts as broken if its classes do not add up to its capacity.
func TestCannotBe(t *testing.T) {
	for _, u := range []Unit{
		{Capacity: 8000, Idle: 7000},
		{Capacity: 8000, Idle: 8000, Shares: []Share{{Class: Kept, Milli: 1}}},
		{Capacity: 8000, Idle: -1000, Shares: []Share{{Class: Kept, Milli: 9000}}},
		{Capacity: 8000, Idle: 9000, Shares: []Share{{Class: Kept, Milli: -1000}}},
	} {
		m := New(begin)
		if m.Set(begin, "n1", u) {
			t.Errorf("%+v is believed", u)
		}
		sum := totals(m, begin+hour, Cluster)
		if want := (8 * hour * 1000); sum.Of[Broken] != want || sum.Sum() != want {
			t.Errorf("%v, want %d broken", sum.Of, want)
		}
	}
}

// TestLostAfterSaved checks that an attempt loses only the work after its last acknowledged checkpoint, also if the
// meter hears of the checkpoint with the end, and if a new leader hears of it with the nodes.
func TestLostAfterSaved(t *testing.T) {
	for name, saves := range map[string]func() *Meter{
		"at once": func() *Meter {
			m := New(begin)
			m.Set(begin, "n1", productive(8000, token(1), begin))
			m.Saved(begin+hour, token(1), begin+hour)
			m.Saved(begin+2*hour, token(1), begin+hour) // again
			return m
		},
		"with the end": func() *Meter {
			m := New(begin)
			m.Set(begin, "n1", productive(8000, token(1), begin))
			m.Saved(begin+3*hour, token(1), begin+hour)
			return m
		},
		"by a new leader": func() *Meter {
			old := New(begin)
			old.Set(begin, "n1", productive(8000, token(1), begin))
			m, u := New(begin+2*hour), productive(8000, token(1), begin)
			m.Recall(old.Since(), begin+hour, old.Rows(begin+hour))
			u.Shares[0].Saved = begin + hour
			m.Set(begin+2*hour, "n1", u)
			m.Saved(begin+2*hour, token(1), begin+hour)
			return m
		},
	} {
		m := saves()
		m.Ended(begin+3*hour, token(1), 3, true)
		for kind := range Kinds {
			sum := totals(m, begin+3*hour, kind)
			if sum.Lost[3] != 8*2*hour*1000 || sum.Of[Productive] != 8*hour*1000 || sum.Sum() != sum.Capacity {
				t.Errorf("%s, %d: %v, lost %v", name, kind, sum.Of, sum.Lost)
			}
		}
	}
}

// TestTakeover checks that a new meter continues where the record ends, after any time. The work of attempts that ended
// in between is moved as far as it was counted.
func TestTakeover(t *testing.T) {
	m := New(begin)
	m.Set(begin, "n1", productive(8000, token(1), begin))
	m.Set(begin, "n2", productive(4000, token(2), begin))
	m.Set(begin, "n3", productive(0, token(2), begin))
	rows, until := m.Rows(begin+hour), begin+hour
	next := New(begin + 3*hour)
	next.Recall(m.Since(), until, rows)
	next.LostSince(&Past{Owner: "eva", Queue: "q", Began: begin, Ended: begin + 2*hour, Milli: 4000, Cause: 4})
	next.Removed(8000, begin, begin+2*hour) // n3
	now := begin + 4*hour
	next.Set(now, "n1", productive(8000, token(1), begin))
	next.Set(now, "n2", Unit{Joined: begin, Type: "a", Capacity: 8000, Idle: 8000})
	next.Ended(now, token(1), 3, true)
	for kind := range Kinds {
		sum := totals(next, now, kind)
		if want := (2*8*4 + 8*2) * hour * 1000; sum.Capacity != want || sum.Sum() != want {
			t.Errorf("%d: %d of %d, want %d", kind, sum.Sum(), sum.Capacity, want)
		}
		if sum.Lost[3] != 8*4*hour*1000 || sum.Lost[4] != 4*hour*1000 || sum.Of[Productive] != 0 {
			t.Errorf("%d: %v, lost %v", kind, sum.Of, sum.Lost)
		}
	}
}

// TestLostOfItsOwner checks that an attempt loses no more work than was counted for its owner.
func TestLostOfItsOwner(t *testing.T) {
	m := New(begin)
	others := productive(8000, token(1), begin)
	others.Shares[0].Owner, others.Shares[0].Queue = "ann", "p"
	m.Set(begin, "n1", others)
	rows, until := m.Rows(begin+hour), begin+hour
	next := New(begin + hour)
	next.Recall(m.Since(), until, rows)
	next.LostSince(&Past{Owner: "eva", Queue: "q", Began: begin, Ended: begin + hour, Milli: 4000, Cause: 4})
	for kind := range Kinds {
		if sum := totals(next, begin+hour, kind); sum.Of[Productive] != 8*hour*1000 || sum.Of[Lost] != 0 {
			t.Errorf("%d: %v, and nothing was counted of what eva had", kind, sum.Of)
		}
	}
}

// TestClockBack checks a new leader whose clock shows an earlier day than the clock of the previous leader.
func TestClockBack(t *testing.T) {
	before, now := New(begin+3*hour), begin+hour
	before.Set(begin+3*hour, "n1", productive(8000, token(1), begin))
	m := New(now)
	m.Recall(before.Since(), begin+4*hour, before.Rows(begin+4*hour))
	m.Set(now, "n1", productive(8000, token(1), begin))
	for kind := range Kinds {
		sum := totals(m, now+2*hour, kind)
		if want := 8 * 3 * hour * 1000; sum.Capacity != want || sum.Sum() != want {
			t.Errorf("%d: %d of %d, want %d", kind, sum.Sum(), sum.Capacity, want)
		}
	}
}

// TestModel compares the sums with a count of every second.
func TestModel(t *testing.T) {
	for seed := range int64(50) {
		chance := rand.New(rand.NewSource(seed))
		m, now := New(begin), begin
		var model Amounts
		have, wants := map[topology.NodeID]Unit{}, Wants{}
		for range 300 {
			id := topology.NodeID([]string{"n1", "n2", "n3"}[chance.Intn(3)])
			switch chance.Intn(5) {
			case 0:
				wants = Wants{Any: chance.Intn(3) == 0, Types: []string{"b"}[:chance.Intn(2)]}
				m.Want(now, wants)
			case 1:
				m.Remove(now, id)
				delete(have, id)
			default:
				u := drawn(chance, now)
				m.Set(now, id, u)
				have[id] = u
			}
			ms := chance.Int63n(20 * 60 * second)
			for _, u := range have {
				for _, s := range u.Shares {
					model.Of[s.Class] += s.Milli * ms
				}
				model.Of[m.idleClass(u.Type)] += u.Idle * ms
				model.Capacity += u.Capacity * ms
			}
			now += ms
			m.Check()
		}
		for kind := range Kinds {
			if sum := totals(m, now, kind); sum != model || sum.Sum() != sum.Capacity {
				t.Fatalf("seed %d, kind %d: %v, want %v", seed, kind, sum, model)
			}
		}
	}
}

func drawn(chance *rand.Rand, now int64) Unit {
	u := Unit{Joined: now, Type: []string{"a", "b"}[chance.Intn(2)], Capacity: 8000}
	left := u.Capacity
	for left > 0 && chance.Intn(4) > 0 {
		n := min(left, chance.Int63n(4000)+1)
		left -= n
		s := Share{
			Class: Class(chance.Intn(int(Classes))), Milli: n, Owner: []string{"", "eva", "tom"}[chance.Intn(3)], Queue: "q",
		}
		if s.Class == Lost || s.Class == Wanted || s.Class == Unwanted {
			s.Class = Productive
		}
		u.Shares = append(u.Shares, s)
	}
	u.Idle = left
	return u
}

// TestNames checks that names beyond the limit share one row, and that no time is lost.
func TestNames(t *testing.T) {
	m := New(begin)
	for i := range int64(2 * maxNames) {
		m.Set(begin, topology.NodeID(rune('a'+i)), Unit{Joined: begin, Capacity: 1000, Shares: []Share{{
			Class: Productive, Milli: 1000, Owner: string(rune('a' + i)), Token: token(uint64(i))}}})
	}
	rows := 0
	for _, r := range m.Rows(begin + 4*hour) {
		if r.Kind == Owners {
			rows++
		}
	}
	if sum := totals(m, begin+4*hour, Owners); rows > 2*(maxNames+1) || sum.Sum() != 2*maxNames*4*hour*1000 {
		t.Errorf("%d rows, %d", rows, sum.Sum())
	}
}

func BenchmarkSet(b *testing.B) {
	m := New(begin)
	for i := range b.N {
		u := productive(8000, token(1), begin)
		if i%2 == 0 {
			u.Shares[0].Class = Stopping
		}
		m.Set(begin+int64(i), "n1", u)
	}
}
