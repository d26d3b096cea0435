package topology

// This file has the courses: the growth of each node's capacity as its allocations end. A course does not depend on the
// gang, so it is computed once after each change of its node.

import "slices"

// roomStep holds the room of a node from a time on.
type roomStep struct {
	at    int64
	room  room
	parts []int64
}

// courseOf returns the growth of a node's room from the time when the node is in service, or nothing if it never is. It
// first computes all capacity that has ended by each time, and then subtracts the reservations that are not lent.
// Reservations are therefore not placed again for each end.
func courseOf(steps []roomStep, s *seat, l *lodging, by Basis, lent *lentSet) []roomStep {
	opens := int64(0)
	if s.why != "" {
		if l == nil || l.backOff <= 0 {
			return nil
		}
		opens = l.backOff
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

// course is the course of one node, with the versions of the data that it was computed from.
type course struct {
	seat              *seat
	lodging           *lodging // nil: none
	settled, revision uint64
	steps             []roomStep
}

// shelfCourses holds the courses of the nodes of one shelf.
type shelfCourses struct {
	shelf   *shelf
	courses []course
	stale   bool
	made    uint64 // Horizon.made when the lodgings were looked up
}

// forecast holds the courses of all nodes by one basis. Like a lens, it reads the tree's log of changes.
type forecast struct {
	h       *Horizon
	by      Basis
	rows    []*shelfCourses // one per shelf of the layout
	stamps  []uint64        // one per row; rows with equal stamps are equal
	version uint64          // of the layout
	pos     uint64          // in the change log

	outlooks map[outlookKey]*outlook
	clock    uint64
}

// refresh updates the courses to the current state of the tree and the known ends.
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

// carry moves the rows to a new layout, as a lens does with its counts.
func (c *forecast) carry(f *Tree) {
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

// renew marks the courses of a row as outdated. They are computed again when they are read.
func (c *forecast) renew(i int) {
	r := c.rows[i]
	r.stale = true
	c.stamps[i] = mixed(r.shelf.prints[whatWill], r.shelf.touched) | 1 // never 0, which marks an uncounted row
}

// row returns a row with current courses.
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

// align moves the courses of a row to the current positions of its nodes. The revision of its last change identifies a
// node.
func (c *forecast) align(r *shelfCourses) {
	if len(r.courses) == len(r.shelf.seats) {
		return // most likely the same nodes; other courses are computed again
	}
	was := r.courses
	r.courses = make([]course, len(r.shelf.seats))
	for j, s := range r.shelf.seats {
		if at := slices.IndexFunc(was, func(old course) bool { return old.settled == s.settled }); at >= 0 {
			r.courses[j] = was[at]
		}
	}
}

// at returns the room of a node at a time, and its parts of devices.
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

// printed returns a print of a row's courses up to a time.
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

// instants appends low and all later times before high at which any room grows.
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
