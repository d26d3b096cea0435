package goodput

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// This file has the meter, which turns the state of each node into sums. A change of a node costs time proportional to
// its shares. Passing time costs nothing until the sums are read or a day ends.

// Share is the part of a node that is in one class.
type Share struct {
	Class        Class
	Milli        int64 // GPUs, in thousandths
	Owner, Queue string
	// Token is the attempt of a productive share, and Began is when the attempt passed its barrier. Time before
	// Began that was not measured counts as Starting.
	Token topology.Token
	Began int64
	// Saved is when the gang of the attempt last acknowledged a checkpoint; 0: never.
	Saved int64
}

// Unit is the state of one node.
type Unit struct {
	Joined   int64 // milliseconds of Unix time, as all times in this package
	Type     string
	Capacity int64
	Shares   []Share
	// Idle is the free capacity that is schedulable and not reserved.
	Idle int64
}

// makesUp reports whether the shares add up to the capacity, and none is negative.
func (u *Unit) makesUp() bool {
	sum, least := u.Idle, u.Idle
	for i := range u.Shares {
		sum += u.Shares[i].Milli
		least = min(least, u.Shares[i].Milli)
	}
	return sum == u.Capacity && least >= 0
}

// Meter sums the GPU time. Its time never goes back.
type Meter struct {
	now   int64
	since int64 // start of the measurement
	from  int64 // end of the time that earlier leaders measured
	rows  map[key]*openRow
	names [Kinds]int // number of rows of the current day
	units map[topology.NodeID]*Unit
	idle  map[string]int64 // by GPU type
	runs  map[topology.Token]*attempt
	wants Wants
	moved bool
}

// Wants are the GPU types that waiting jobs could use now.
type Wants struct {
	Any   bool // all types
	Types []string
}

// has reports whether waiting jobs could use a type.
func (w *Wants) has(gpuType string) bool { return w.Any || slices.Contains(w.Types, gpuType) }

// Equal reports whether both have the same types.
func (w Wants) Equal(o Wants) bool { return w.Any == o.Any && slices.Equal(w.Types, o.Types) }

// New returns a meter that starts now.
func New(now int64) *Meter {
	return &Meter{
		now: now, since: now, from: now, rows: map[key]*openRow{}, units: map[topology.NodeID]*Unit{},
		idle: map[string]int64{}, runs: map[topology.Token]*attempt{},
	}
}

// Set stores the state of a node from now on, and reports whether the state is consistent. If the time before was not
// measured, because no leader had contact with the node, the meter assumes the same state for that time.
func (m *Meter) Set(now int64, id topology.NodeID, u Unit) bool {
	m.advance(now)
	ok := u.makesUp()
	if !ok {
		u.Shares, u.Idle = []Share{{Class: Broken, Milli: u.Capacity}}, 0
	}
	before := m.units[id]
	if before != nil {
		if before.equal(&u) {
			return ok
		}
		m.apply(before, -1)
	} else {
		m.makeUpFor(&u, max(m.from, u.Joined), m.now)
		m.adopt(&u)
	}
	m.units[id] = &u
	m.apply(&u, 1)
	m.moved = true
	return ok
}

func (u *Unit) equal(o *Unit) bool {
	return u.Type == o.Type && u.Capacity == o.Capacity && u.Idle == o.Idle && slices.Equal(u.Shares, o.Shares)
}

// Remove removes a node.
func (m *Meter) Remove(now int64, id topology.NodeID) {
	m.advance(now)
	if u := m.units[id]; u != nil {
		m.apply(u, -1)
		delete(m.units, id)
		m.moved = true
	}
}

// Want sets the GPU types that waiting jobs could use.
func (m *Meter) Want(now int64, w Wants) {
	if m.wants.Equal(w) {
		return
	}
	m.advance(now)
	m.addIdle(-1)
	m.wants = w
	m.addIdle(1)
	m.moved = true
}

// addIdle adds the idle GPUs of all nodes, or subtracts them if sign is -1.
func (m *Meter) addIdle(sign int64) {
	for gpuType, milli := range m.idle { //order: sums
		m.add(&Share{Class: m.idleClass(gpuType), Milli: sign * milli})
	}
}

func (m *Meter) idleClass(gpuType string) Class {
	if m.wants.has(gpuType) {
		return Wanted
	}
	return Unwanted
}

// apply adds the state of a node, or subtracts it if sign is -1.
func (m *Meter) apply(u *Unit, sign int64) {
	for i := range u.Shares {
		s := u.Shares[i]
		s.Milli *= sign
		m.add(&s)
		m.run(&s)
	}
	if m.idle[u.Type] += sign * u.Idle; m.idle[u.Type] == 0 {
		delete(m.idle, u.Type)
	}
	m.add(&Share{Class: m.idleClass(u.Type), Milli: sign * u.Idle})
	m.addCapacity(sign * u.Capacity)
}

// addCapacity changes the capacity. It first completes the sums up to now. This is necessary even on a new day, because
// by the clock of an earlier leader the day may have begun earlier.
func (m *Meter) addCapacity(milli int64) {
	for kind := range Kinds {
		r := m.row(kind, "")
		r.pay(m.now)
		r.capacity += milli
	}
}

// add adds a share to its class.
func (m *Meter) add(s *Share) {
	if s.Milli == 0 {
		return
	}
	for kind, name := range [Kinds]string{Owners: s.Owner, Queues: s.Queue} {
		r := m.row(Kind(kind), name)
		r.pay(m.now)
		r.rate[s.Class] += s.Milli
	}
}

// row returns the row of a name on the current day. It creates the row if necessary.
func (m *Meter) row(kind Kind, name string) *openRow {
	k := key{kind, m.now / dayMs, name}
	r := m.rows[k]
	if r == nil && name != "" && m.names[kind] >= maxNames {
		k.name = Rest
		r = m.rows[k]
	}
	if r == nil {
		r = &openRow{paid: m.now}
		m.rows[k] = r
		m.names[kind]++
	}
	return r
}

// advance moves the time forward, one day at a time, because each day has separate rows.
func (m *Meter) advance(now int64) {
	for now/dayMs > m.now/dayMs {
		m.settle((m.now/dayMs + 1) * dayMs)
		m.names = [Kinds]int{}
		// The first names of a day get rows, so their order must not be random.
		for _, id := range slices.Sorted(maps.Keys(m.units)) {
			u := m.units[id]
			for i := range u.Shares {
				m.add(&u.Shares[i])
			}
			m.addCapacity(u.Capacity)
		}
		m.addIdle(1)
		m.forget()
	}
	m.now = max(m.now, now)
}

// settle completes all sums up to a time, which is at most the end of the current day.
func (m *Meter) settle(now int64) {
	for k, r := range m.rows { //order: each row is independent
		if k.day == m.now/dayMs {
			r.pay(now)
		}
	}
	for _, r := range m.runs { //order: each attempt is independent
		// A paused attempt keeps the time when it left its last node, and forget compares that time.
		if r.rate != 0 {
			r.pay(now)
		}
	}
	m.now = now
}

// forget removes days that are too old, and attempts whose end was never reported.
func (m *Meter) forget() {
	today := m.now / dayMs
	maps.DeleteFunc(m.rows, func(k key, _ *openRow) bool {
		return k.day <= today-maxDays || k.kind != Cluster && k.day <= today-maxNamedDays
	})
	maps.DeleteFunc(m.runs, func(_ topology.Token, r *attempt) bool { return r.rate == 0 && r.paid <= m.now-dayMs })
}

// makeUpFor adds the state of a node for a time that was not measured.
func (m *Meter) makeUpFor(u *Unit, from, to int64) {
	if from = max(from, 0); from >= to {
		return
	}
	for i := range u.Shares {
		s := &u.Shares[i]
		if s.Class != Productive {
			m.charge(s, from, to)
			continue
		}
		began := min(max(from, s.Began), to)
		m.charge(&Share{Class: Starting, Milli: s.Milli, Owner: s.Owner, Queue: s.Queue}, from, began)
		m.charge(s, began, to)
	}
	m.charge(&Share{Class: m.idleClass(u.Type), Milli: u.Idle}, from, to)
	eachDay(from, to, func(day, ms int64) {
		for kind := range Kinds {
			m.past(kind, day, "").Capacity += u.Capacity * ms
		}
	})
}

// charge adds a share that lasted from one time to another.
func (m *Meter) charge(s *Share, from, to int64) {
	if s.Milli == 0 {
		return
	}
	eachDay(from, to, func(day, ms int64) {
		for kind, name := range [Kinds]string{Owners: s.Owner, Queues: s.Queue} {
			m.past(Kind(kind), day, name).Of[s.Class] += s.Milli * ms
		}
	})
}

// past returns the sums of a name on the current or an earlier day.
func (m *Meter) past(kind Kind, day int64, name string) *Amounts {
	if day == m.now/dayMs {
		return &m.row(kind, name).sum
	}
	r := m.rows[key{kind, day, name}]
	if r == nil && name != "" {
		name = Rest
		r = m.rows[key{kind, day, name}]
	}
	if r == nil {
		r = &openRow{}
		m.rows[key{kind, day, name}] = r
	}
	return &r.sum
}

// eachDay calls visit for each day of a time span.
func eachDay(from, to int64, visit func(day, ms int64)) {
	for from < to {
		day := from / dayMs
		end := min(to, (day+1)*dayMs)
		visit(day, end-from)
		from = end
	}
}

// Removed accounts for a node that was removed while no leader measured. The node counts as broken, because no leader
// had contact with it.
func (m *Meter) Removed(capacity, joined, at int64) {
	u := Unit{Capacity: capacity, Shares: []Share{{Class: Broken, Milli: capacity}}}
	m.makeUpFor(&u, max(m.from, joined), min(at, m.now))
}

// Rows returns all sums up to now, sorted by kind, day and name.
func (m *Meter) Rows(now int64) []Row {
	m.advance(now)
	m.settle(m.now)
	all := make([]Row, 0, len(m.rows))
	for k, r := range m.rows { //order: sorted below
		all = append(all, Row{Kind: k.kind, Day: k.day, Name: k.name, Amounts: r.sum})
	}
	slices.SortFunc(all, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Now returns the amount of GPUs in each class at the moment, and the capacity.
func (m *Meter) Now() (of [Classes]int64, capacity int64) {
	r := m.row(Cluster, "")
	return r.rate, r.capacity
}

// Since returns the start of the measurement.
func (m *Meter) Since() int64 { return m.since }

// At returns the time up to which the sums are complete.
func (m *Meter) At() int64 { return m.now }

// Moved reports whether the state has changed since the last call.
func (m *Meter) Moved() bool {
	moved := m.moved
	m.moved = false
	return moved
}

// Check panics if the classes do not add up to the capacity.
func (m *Meter) Check() {
	of, capacity := m.Now()
	for _, n := range of {
		capacity -= n
	}
	if capacity != 0 {
		panic("the classes of GPU time do not add up to the capacity")
	}
}
