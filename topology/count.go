package topology

// This file counts the units of one rate that the nodes of one shelf hold.

// count counts one shelf.
func (l *lens) count(sh *shelf) cell {
	if l.special || l.gpus == 0 || l.rate.whole || l.named != nil || l.out != nil {
		return l.countAny(sh)
	}
	var c cell
	for i := range sh.rooms {
		r := &sh.rooms[i]
		if !l.match[r.kind] {
			continue
		}
		c.total += int64(r.gpus)
		if !r.usable {
			continue
		}
		c.free += int64(r.whole)
		if h := l.unitsIn(r); h > 0 {
			c.units += h
			c.mark(h, r.precious())
		}
	}
	return c
}

// seen returns the room of a node under the assumptions of the lens, and its parts of devices.
func (l *lens) seen(sh *shelf, i int) (room, []int64) {
	s := sh.seats[i]
	switch {
	case l.then != nil:
		return l.then.at(sh, i, l.instant)
	case l.lends == nil || len(s.kept) == 0:
		return sh.rooms[i].supposed(l.idle, l.all), s.parts
	}
	left := s.left(s.free, l.lends)
	return s.room(left).supposed(l.idle, l.all), left.Parts
}

// unitsIn returns the units of devices in a room. It uses a table, because a few comparisons are faster than divisions.
func (l *lens) unitsIn(r *room) int64 {
	if int(r.whole) >= len(l.units) {
		return l.fit(r)
	}
	h := l.units[r.whole]
	if l.lacks(r, h) {
		if l.lacks(r, 1) {
			return 0
		}
		for h--; l.lacks(r, h); {
			h--
		}
	}
	return int64(h)
}

// lacks reports whether a room has too little CPU or memory for a number of units.
func (l *lens) lacks(r *room, units uint8) bool {
	n := &l.needs[units]
	return r.cpu < n.MilliCPU || r.mem < n.MemoryBytes
}

// serves reports whether a node is of a matching kind, and is named if the gang names nodes. An excluded node also
// serves: its capacity counts in the total.
func (l *lens) serves(sh *shelf, i int) bool {
	return l.match[sh.rooms[i].kind] && (l.named == nil || l.named[sh.seats[i].id])
}

// countAny counts a shelf for every rate that is not a plain number of devices.
func (l *lens) countAny(sh *shelf) cell {
	var c cell
	for i := range sh.rooms {
		if !l.serves(sh, i) {
			continue
		}
		r, parts := l.seen(sh, i)
		free, total := l.currency(&r)
		c.total += total
		if !r.usable || l.out[sh.seats[i].id] {
			continue
		}
		c.free += free
		units, size, whole := l.grade(&r, parts)
		if size > 0 {
			c.units += units
			c.mark(size, whole)
		}
	}
	return c
}

func (c *cell) mark(size int64, whole bool) {
	bit := uint64(1) << bucketOf(size)
	if whole {
		c.whole |= bit
	} else {
		c.loose |= bit
	}
}

// currency returns the amount that refusals name: devices if any are requested, else milli-CPU, else bytes.
func (l *lens) currency(r *room) (free, total int64) {
	switch {
	case l.gpus > 0 || l.part > 0:
		return int64(r.whole), int64(r.gpus)
	case l.cpu > 0:
		return r.cpu, r.cpuTotal
	}
	return r.mem, r.memTotal
}

// grade returns the value of one node for a rate. units is the number of units that a domain may count on. size is used
// to compare nodes: a search takes the smallest size that is large enough. whole reports whether taking from the node
// breaks a whole node. A size of zero means no capacity.
func (l *lens) grade(r *room, parts []int64) (units, size int64, whole bool) {
	if l.part > 0 {
		size, whole = l.gradePart(r, parts)
		return 1, size, whole
	}
	size = l.fit(r)
	if l.gpus == 0 {
		// CPU that is taken next to free devices makes them unusable. A gang without devices therefore takes
		// nodes with free devices last.
		return size, size, r.whole > 0
	}
	if !l.rate.whole {
		return size, size, r.precious()
	}
	if r.precious() && size >= int64(r.gpus) {
		return int64(r.gpus), int64(r.gpus), true
	}
	return 0, size, false
}

// partStep is the resolution, in thousandths, of the remainder of a device next to a share, so that every remainder has
// an exact bucket. Sizes 1 to 32 are parts that hold the share, and the next size is a whole device.
const partStep = 32

func (l *lens) gradePart(r *room, parts []int64) (size int64, whole bool) {
	if r.cpu < l.cpu || r.mem < l.mem {
		return 0, false
	}
	if int64(r.part) >= l.part {
		at := smallest(parts, l.part)
		return 1 + (parts[at]-l.part)/partStep, false
	}
	if r.whole > 0 {
		return 2 + WholeGPU/partStep, r.precious()
	}
	return 0, false
}

// look grades one node like count, including exclusions. In the usual case it reads the room directly from the shelf,
// because a copy would cost as much as the grading.
func (l *lens) look(sh *shelf, i int) (units, size int64, whole bool) {
	if !l.serves(sh, i) || l.out != nil && l.out[sh.seats[i].id] {
		return 0, 0, false
	}
	if l.special || l.part > 0 {
		r, parts := l.seen(sh, i)
		if !r.usable {
			return 0, 0, false
		}
		return l.grade(&r, parts)
	}
	r := &sh.rooms[i]
	if !r.usable {
		return 0, 0, false
	}
	return l.grade(r, nil)
}
