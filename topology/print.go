package topology

// This file has the prints. A print is a hash of the values of a node that indexes count. The print of a shelf is the
// sum of its nodes' prints. Each planning pass removes all reservations and adds most of them again at the same place.
// An index then compares the print of a shelf and need not count the shelf again.

// prints holds one print per aspect: the capacity that its nodes have left, and will have. Free capacity, reserved or
// not, has no print.
type prints [whatFree]uint64

// print replaces the prints of a node.
func (s *seat) print(now prints) {
	for i, p := range now {
		s.shelf.prints[i] += p - s.prints[i]
	}
	s.prints = now
}

// described is the start value of a print. Revisions and amounts are small numbers. Without a start value, the print of
// a node with nothing free could be zero, and its shelf's print would be the same without it.
const described = 1 << 63

// printed returns the prints of a node that has a room left. They do not include the effect of its ends.
func (s *seat) printed(r *room) (p prints) {
	h := mixed(mixed(s.joined, uint64(r.cpu)), uint64(r.mem))
	h = mixed(h, uint64(r.whole)<<32^uint64(r.part)<<8^uint64(bit(r.usable)))
	for _, part := range s.parts {
		h = mixed(h, uint64(part))
	}
	p[whatLeft] = mixed(h, uint64(len(s.parts)))
	free := &s.free
	h = mixed(mixed(mixed(s.joined, uint64(free.MilliCPU)), uint64(free.MemoryBytes)), uint64(free.WholeGPUs))
	for _, part := range free.Parts {
		h = mixed(h, uint64(part))
	}
	h = mixed(h, uint64(len(free.Parts))<<1^uint64(bit(s.why == "")))
	for i := range s.kept {
		for _, a := range s.kept[i].amounts {
			h = mixed(mixed(mixed(h, uint64(a.MilliCPU)), uint64(a.MemoryBytes)), uint64(a.MilliGPU))
		}
	}
	p[whatWill] = h
	return p
}

func bit(is bool) uint8 {
	if is {
		return 1
	}
	return 0
}

// mixed adds a word to a 64-bit hash. Different words give different results, except with probability 2^-64.
func mixed(sum, word uint64) uint64 {
	sum = (sum ^ word) * 0x9e3779b97f4a7c15
	return sum ^ sum>>32
}
