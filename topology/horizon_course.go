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
// one instant is worked out from all that ended by then, and only then what is kept is taken from it: what is kept
// and not lent must not be found anew at each end.
func courseOf(s *seat, l *lodging, by Basis, lent *lentSet) []step {
	var opens int64
	if l == nil {
		l = &lodging{}
	}
	if s.why != "" {
		if opens = l.bench; opens <= 0 {
			return nil
		}
	}
	free := s.free
	steps := append(make([]step, 0, 1+len(l.ends)), s.stepAt(opens, free, lent))
	for _, e := range l.endsInOrder(by) {
		free = free.More(e.Amount)
		next := s.stepAt(max(opens, e.by(by)), free, lent)
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

// course is the course of one machine, and of which state of it.
type course struct {
	settled, revision uint64
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
	rows    []*row // as the shelves of the layout
	version uint64 // of the layout
	pos     uint64 // in the change log
}

// refresh brings the courses up to date with the fabric and with what is known of the time.
func (c *forecast) refresh() {
	f := c.h.f
	f.arrange()
	if c.version != f.plan.version {
		c.carry(f)
	}
	if c.pos < f.changes.base {
		for _, r := range c.rows {
			c.renew(r)
		}
	} else {
		for _, sh := range f.changes.log[c.pos-f.changes.base:] {
			if sh.at >= 0 && c.rows[sh.at].shelf == sh {
				c.renew(c.rows[sh.at])
			}
		}
	}
	c.pos = f.changes.end()
	f.changes.read = max(f.changes.read, c.pos)
}

// carry moves the rows over to a new layout, as a lens does with what it counted.
func (c *forecast) carry(f *Fabric) {
	was := c.rows
	c.rows, c.version = make([]*row, len(f.plan.shelves)), f.plan.version
	j := 0
	for i, sh := range f.plan.shelves {
		for j < len(was) && was[j].shelf.at < 0 {
			j++
		}
		if j < len(was) && was[j].shelf == sh {
			c.rows[i] = was[j]
			j++
		} else {
			c.rows[i] = &row{shelf: sh}
			c.renew(c.rows[i])
		}
	}
}

// renew works out the courses of a row that are no longer true.
func (c *forecast) renew(r *row) {
	was := r.courses
	r.courses = make([]course, len(r.shelf.seats))
	for i, s := range r.shelf.seats {
		l := c.h.machines[s.id]
		now := course{settled: s.settled}
		if l != nil {
			now.revision = l.revision
		}
		at := slices.IndexFunc(was, func(old course) bool {
			return old.settled == now.settled && old.revision == now.revision
		})
		if at >= 0 {
			now.steps = was[at].steps
		} else {
			now.steps = courseOf(s, l, c.by, nil)
		}
		r.courses[i] = now
	}
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

// instants appends the instants at which room grows anywhere, from one on, that one included.
func (c *forecast) instants(to []int64, from int64) []int64 {
	to = append(to, from)
	for _, r := range c.rows {
		for i := range r.courses {
			for _, step := range r.courses[i].steps {
				if step.at > from && step.at < Never {
					to = append(to, step.at)
				}
			}
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}
