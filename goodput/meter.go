package goodput

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// This file owns the meter: what each machine has now, and how that becomes sums. A change costs the machine's own
// shares; time that passes costs nothing until somebody reads, or a day ends.

// Share is a part of a machine in one class.
type Share struct {
	Class        Class
	Milli        int64 // GPUs, in thousandths
	Owner, Queue string
	// Token names the attempt of what is productive, and Began is when it passed its barrier: what came before, where
	// nobody counted, was its start.
	Token topology.Token
	Began int64
}

// Unit is one machine: what it has, and what becomes of it.
type Unit struct {
	Joined   int64 // in milliseconds of Unix time, as all times here
	Type     string
	Capacity int64
	Shares   []Share
	// Idle is what is free, open, and kept for nobody.
	Idle int64
}

// makesUp reports whether the parts of a machine are all of it, and none is less than nothing.
func (u *Unit) makesUp() bool {
	sum, least := u.Idle, u.Idle
	for i := range u.Shares {
		sum += u.Shares[i].Milli
		least = min(least, u.Shares[i].Milli)
	}
	return sum == u.Capacity && least >= 0
}

// Meter sums. Its time never goes back.
type Meter struct {
	now   int64
	since int64 // what was before nobody counted
	from  int64 // what was before others counted
	rows  map[key]*openRow
	names [Kinds]int // rows of the present day
	units map[topology.NodeID]*Unit
	idle  map[string]int64 // by GPU type
	runs  map[topology.Token]*attempt
	wants Wants
	moved bool
}

// Wants are the GPU types that waiting jobs could use now.
type Wants struct {
	Any   bool // all of them
	Types []string
}

// has reports whether a type is among them.
func (w *Wants) has(gpuType string) bool { return w.Any || slices.Contains(w.Types, gpuType) }

// Equal reports whether both are the same.
func (w Wants) Equal(o Wants) bool { return w.Any == o.Any && slices.Equal(w.Types, o.Types) }

// New makes a meter that begins now.
func New(now int64) *Meter {
	return &Meter{
		now: now, since: now, from: now, rows: map[key]*openRow{}, units: map[topology.NodeID]*Unit{},
		idle: map[string]int64{}, runs: map[topology.Token]*attempt{},
	}
}

// Set says what a machine has from now on, and reports whether that can be. What nobody counted before, because no
// leader had heard it, was as it is now.
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

// Remove says that a machine is no more.
func (m *Meter) Remove(now int64, id topology.NodeID) {
	m.advance(now)
	if u := m.units[id]; u != nil {
		m.apply(u, -1)
		delete(m.units, id)
		m.moved = true
	}
}

// Want says which GPUs are wanted from now on.
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

// addIdle counts all that is idle, or takes it back.
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

// apply counts a machine, or takes it back.
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

// addCapacity changes how much there is. What there was until now is summed first, on a new day too: by the clock of an
// earlier leader that day may have begun before.
func (m *Meter) addCapacity(milli int64) {
	for kind := range Kinds {
		r := m.row(kind, "")
		r.pay(m.now)
		r.capacity += milli
	}
}

// add changes how much is in a class.
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

// row finds that of a name on the present day.
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

// advance goes on to a time, day by day: each day has rows of its own.
func (m *Meter) advance(now int64) {
	for now/dayMs > m.now/dayMs {
		m.settle((m.now/dayMs + 1) * dayMs)
		m.names = [Kinds]int{}
		for _, id := range slices.Sorted(maps.Keys(m.units)) { // which names come first must not be chance
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

// settle sums all that grows up to a time, which is at the latest the end of the day.
func (m *Meter) settle(now int64) {
	for k, r := range m.rows { //order: each is its own
		if k.day == m.now/dayMs {
			r.pay(now)
		}
	}
	for _, r := range m.runs { //order: each is its own
		if r.rate != 0 { // else it stays at when it left its last machine, by which it is forgotten
			r.pay(now)
		}
	}
	m.now = now
}

// forget drops the days that are too old, and attempts of which nobody told the end.
func (m *Meter) forget() {
	today := m.now / dayMs
	maps.DeleteFunc(m.rows, func(k key, _ *openRow) bool {
		return k.day <= today-maxDays || k.kind != Cluster && k.day <= today-maxNamedDays
	})
	maps.DeleteFunc(m.runs, func(_ topology.Token, r *attempt) bool { return r.rate == 0 && r.paid <= m.now-dayMs })
}

// makeUpFor counts what a machine had in a time that nobody counted.
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

// charge counts a share that lasted from one time to another.
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

// past finds the sums of a name on a day that may be over.
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

// eachDay visits the days of a time.
func eachDay(from, to int64, visit func(day, ms int64)) {
	for from < to {
		day := from / dayMs
		end := min(to, (day+1)*dayMs)
		visit(day, end-from)
		from = end
	}
}

// Removed counts a machine that was removed when nobody counted: it could not be reached, or it could not have been.
func (m *Meter) Removed(capacity, joined, at int64) {
	u := Unit{Capacity: capacity, Shares: []Share{{Class: Broken, Milli: capacity}}}
	m.makeUpFor(&u, max(m.from, joined), min(at, m.now))
}

// Rows are all sums up to now, by kind, day and name.
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

// Now is how much of the GPUs is in each class at the moment, and how many there are.
func (m *Meter) Now() (of [Classes]int64, capacity int64) {
	r := m.row(Cluster, "")
	return r.rate, r.capacity
}

// Since is when the first that was counted began, and At up to when all is.
func (m *Meter) Since() int64 { return m.since }

// At is up to when all is counted.
func (m *Meter) At() int64 { return m.now }

// Moved reports whether anything has changed since it was asked last.
func (m *Meter) Moved() bool {
	moved := m.moved
	m.moved = false
	return moved
}

// Check panics where classes do not make up what there is.
func (m *Meter) Check() {
	of, capacity := m.Now()
	for _, n := range of {
		capacity -= n
	}
	if capacity != 0 {
		panic("the classes of GPU time do not make up what there is")
	}
}
