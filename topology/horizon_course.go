package topology

// This file owns courses: how the room of each machine grows with the ends of what is on it. A course depends on
// nothing that is asked, so it is worked out once after each change of its machine.

import "slices"

// roomStep says what room a machine has from an instant on.
type roomStep struct {
	at    int64
	room  room
	parts []int64
}

// courseOf is how the room of a machine grows, from when it is in service; nothing where it never is. What is free at
// one instant is worked out from all that ended by then, and only then what is kept and not lent is taken from it: it
// must not be found again at each end.
func courseOf(steps []roomStep, s *seat, l *lodging, by Basis, lent *lentSet) []roomStep {
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

func (s *seat) stepAt(at int64, free Capacity, lent *lentSet) roomStep {
	left := free
	if len(s.kept) > 0 {
		left = s.beside(free, lent, Resources{})
	}
	r := s.room(left)
	r.usable = true
	return roomStep{at: at, room: r, parts: left.Parts}
}

// course is the course of one machine, with the state of it that was read.
type course struct {
	seat              *seat
	lodging           *lodging // nil: it has none
	settled, revision uint64
	steps             []roomStep
}

// shelfCourses holds the courses of the machines of one shelf.
type shelfCourses struct {
	shelf   *shelf
	courses []course
	stale   bool
	made    uint64 // when lodgings were found
}

// forecast is the courses of all machines by one basis. Like a lens it reads the fabric's log of changes.
type forecast struct {
	h       *Horizon
	by      Basis
	rows    []*shelfCourses // as the shelves of the layout
	stamps  []uint64        // of the rows: equal stamps, equal rows
	version uint64          // of the layout
	pos     uint64          // in the change log

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
	c.rows, c.version = make([]*shelfCourses, len(f.plan.shelves)), f.plan.version
	j := 0
	for i, sh := range f.plan.shelves {
		for j < len(was) && was[j].shelf.at < 0 {
			j++
		}
		if j < len(was) && was[j].shelf == sh {
			c.rows[i], c.stamps[i] = was[j], stamps[j]
			j++
		} else {
			c.rows[i] = &shelfCourses{shelf: sh}
			c.renew(i)
		}
	}
}

// renew notes that the courses of a row may no longer be true. They are worked out when somebody reads them.
func (c *forecast) renew(i int) {
	r := c.rows[i]
	r.stale = true
	c.stamps[i] = mixed(r.shelf.prints[whatWill], r.shelf.touched) | 1 // never 0: that is a row that nobody counted
}

// row is a row whose courses are true.
func (c *forecast) row(i int) *shelfCourses {
	r := c.rows[i]
	if !r.stale {
		return r
	}
	r.stale = false
	c.align(r)
	for j, s := range r.shelf.seats {
		now, revision := &r.courses[j], uint64(0)
		if now.seat != s || r.made != c.h.made {
			now.seat, now.lodging = s, c.h.machines[s.id]
		}
		if now.lodging != nil {
			revision = now.lodging.revision
		}
		if now.settled != s.settled || now.revision != revision {
			now.settled, now.revision = s.settled, revision
			now.steps = courseOf(now.steps[:0], s, now.lodging, c.by, nil)
		}
	}
	r.made = c.h.made
	return r
}

// align moves the courses of a row to where its machines stand now. A machine is known by its last change: no other
// has the same.
func (c *forecast) align(r *shelfCourses) {
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

// at is the room of a machine at an instant, and the parts of devices in it.
func (c *forecast) at(sh *shelf, i int, instant int64) (room, []int64) {
	steps := c.row(int(sh.at)).courses[i].steps
	for n := len(steps) - 1; n >= 0; n-- {
		if steps[n].at <= instant {
			return steps[n].room, steps[n].parts
		}
	}
	r := sh.rooms[i]
	r.usable = false
	return r, nil
}

// printed is a print of the courses of a row until an instant.
func (c *forecast) printed(i int, until int64) (h uint64) {
	r := c.row(i)
	for j, s := range r.shelf.seats {
		h = mixed(h, s.joined)
		for _, step := range r.courses[j].steps {
			if step.at > until {
				break
			}
			h = mixed(mixed(mixed(h, uint64(step.at)), uint64(step.room.cpu)), uint64(step.room.mem))
			h = mixed(h, uint64(step.room.whole))
			for _, part := range step.parts {
				h = mixed(h, uint64(part))
			}
		}
	}
	return h
}

// instants appends the instants at which room grows anywhere from low on, that one included, until before high.
func (c *forecast) instants(to []int64, low, high int64) []int64 {
	if low < high {
		to = append(to, low)
	}
	for n := range c.rows {
		r := c.row(n)
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
