package topology

// This file owns courses: how the room of each machine grows with the ends of what is on it. A course depends on
// nothing that is asked, so it is worked out once after each change of its machine.

import "slices"

// step is a machine's room from an instant on.
type step struct {
	at    int64
	room  room
	parts []int64
}

// courseOf is how the room of a machine grows, from when it is in service; nothing where it never is. What is free at
// one instant is worked out from all that ended by then, and only then what is kept and not lent is taken from it: it
// must not be found again at each end.
func courseOf(steps []step, s *seat, l *lodging, by Basis, lent *lentSet) []step {
	opens := int64(0)
	if s.why != "" {
		if l == nil || l.bench <= 0 {
			return nil
		}
		opens = l.bench
	}
	free := s.free
	steps = append(steps, s.stepAt(opens, free, lent))
	if l == nil {
		return steps
	}
	for _, e := range l.ends[by] {
		free = free.More(e.amount)
		next := s.stepAt(max(opens, e.at), free, lent)
		if last := &steps[len(steps)-1]; last.at == next.at {
			*last = next
		} else {
			steps = append(steps, next)
		}
	}
	return steps
}

func (s *seat) stepAt(at int64, free Capacity, lent *lentSet) step {
	left := free
	if len(s.kept) > 0 {
		left = s.left(free, lent)
	}
	r := s.room(left)
	r.usable = true
	return step{at: at, room: r, parts: left.Parts}
}

// course is the course of one machine, with the state of it that was read.
type course struct {
	settled, revision uint64
	stamp             uint64
	steps             []step
}

// row are the courses of the machines of one shelf.
type row struct {
	shelf   *shelf
	courses []course
}

// forecast is the courses of all machines by one basis. Like a lens it reads the fabric's log of changes.
type forecast struct {
	h       *Horizon
	by      Basis
	rows    []*row   // as the shelves of the layout
	stamps  []uint64 // of the rows: equal stamps, equal rows
	version uint64   // of the layout
	pos     uint64   // in the change log

	outlooks map[outlookKey]*outlook
	clock    uint64
}

// refresh brings the courses up to date with the fabric and with what is known of the time.
func (c *forecast) refresh() {
	f := c.h.f
	f.arrange()
	if c.version != f.plan.version {
		c.carry(f)
	}
	f.changes.since(c.pos, f.plan.shelves, whatWill, c.renew)
	c.pos = f.changes.end()
	f.changes.read = max(f.changes.read, c.pos)
}

// carry moves the rows over to a new layout, as a lens does with what it counted.
func (c *forecast) carry(f *Fabric) {
	was, stamps := c.rows, c.stamps
	c.stamps = make([]uint64, len(f.plan.shelves))
	c.rows, c.version = make([]*row, len(f.plan.shelves)), f.plan.version
	j := 0
	for i, sh := range f.plan.shelves {
		for j < len(was) && was[j].shelf.at < 0 {
			j++
		}
		if j < len(was) && was[j].shelf == sh {
			c.rows[i], c.stamps[i] = was[j], stamps[j]
			j++
		} else {
			c.rows[i] = &row{shelf: sh}
			c.renew(i)
		}
	}
}

// renew works out the courses of a row that are no longer true.
func (c *forecast) renew(i int) {
	r := c.rows[i]
	c.align(r)
	stamp := uint64(0)
	for j, s := range r.shelf.seats {
		l := c.h.machines[s.id]
		revision := uint64(0)
		if l != nil {
			revision = l.revision
		}
		now := &r.courses[j]
		if now.settled != s.settled || now.revision != revision {
			*now = course{settled: s.settled, revision: revision, steps: courseOf(now.steps[:0], s, l, c.by, nil)}
			now.stamp = now.sum(s.id)
		}
		stamp = mixed(stamp, now.stamp)
	}
	c.stamps[i] = stamp | 1 // never 0: that is a row that nobody counted
}

// align moves the courses of a row to where its machines stand now. A machine is known by its last change: no other
// has the same.
func (c *forecast) align(r *row) {
	if len(r.courses) == len(r.shelf.seats) {
		return // most likely the same machines; else their courses are worked out again
	}
	was := r.courses
	r.courses = make([]course, len(r.shelf.seats))
	for j, s := range r.shelf.seats {
		if at := slices.IndexFunc(was, func(old course) bool { return old.settled == s.settled }); at >= 0 {
			r.courses[j] = was[at]
		}
	}
}

// sum is a number that differs where the course or its machine does. What is kept is tried in one place after another
// and taken back, and then what was counted of a row holds again.
func (c *course) sum(id NodeID) uint64 {
	h := uint64(len(id))
	for _, b := range []byte(id) {
		h = mixed(h, uint64(b))
	}
	for i := range c.steps {
		s := &c.steps[i]
		h = mixed(mixed(mixed(h, uint64(s.at)), uint64(s.room.cpu)), uint64(s.room.mem))
		h = mixed(h, uint64(s.room.whole)<<48^uint64(s.room.gpus)<<32^uint64(s.room.part))
	}
	if len(c.steps) > 0 {
		h = mixed(h, uint64(c.steps[0].room.kind))
	}
	return h
}

// mixed adds a word to a sum of 64 bits; sums of different words differ but for one in 2^64.
func mixed(sum, word uint64) uint64 {
	sum = (sum ^ word) * 0x9e3779b97f4a7c15
	return sum ^ sum>>32
}

// at is the room of a machine at an instant, and the parts of devices in it.
func (c *forecast) at(sh *shelf, i int, instant int64) (room, []int64) {
	steps := c.rows[sh.at].courses[i].steps
	for n := len(steps) - 1; n >= 0; n-- {
		if steps[n].at <= instant {
			return steps[n].room, steps[n].parts
		}
	}
	r := sh.rooms[i]
	r.usable = false
	return r, nil
}

// instants appends the instants at which room grows anywhere from low on, that one included, until before high.
func (c *forecast) instants(to []int64, low, high int64) []int64 {
	if low < high {
		to = append(to, low)
	}
	for _, r := range c.rows {
		for i := range r.courses {
			for _, step := range r.courses[i].steps {
				if step.at > low && step.at < high {
					to = append(to, step.at)
				}
			}
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}
