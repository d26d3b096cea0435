package topology

// This file owns refusals: the short answer to why a gang does not start.

import (
	"math/bits"
	"strconv"
	"strings"
)

// Cause is the kind of a refusal.
type Cause uint8

const (
	// NoRoom: there may be enough, but not free, or not close enough together.
	NoRoom Cause = iota
	// NoMatch: no machine is of the kind that is asked for.
	NoMatch
	// Senseless: the gang asks for something that no machine could ever give.
	Senseless
	// NoSuchLevel: the fabric has no level of that name.
	NoSuchLevel
)

// Refusal says why a gang has no place now, in numbers that were true when it
// was made. It holds no memory of its own, so that refusing costs none.
type Refusal struct {
	Cause Cause
	Text  string // what is senseless
	// Level is where the whole gang must be, "" for anywhere; Domain the place of
	// that level that holds the most of it.
	Level  string
	Domain string
	// Units is how many the gang wants, Room how many of them the best domain holds. A unit is a task; in a total it is
	// one GPU, or one core.
	Units, Room int64
	// Free and Total are what machines of the right kind in the best domain have
	// free and have at all, in devices, milli-CPU or bytes.
	Free, Total int64
	// Idle: it would have no place even if all machines were idle and usable.
	Idle bool
	// Patient: a coarser level would be permitted later.
	Patient bool
	// Named: only the machines that the gang names were looked at. Excluded: it excludes some. Avoided: it is kept from
	// some for a while. Closing: some close before it would surely have ended.
	Named, Excluded, Avoided, Closing bool
	// Near is the machine that comes nearest, where somebody has looked for it.
	Near Nearest
	// Account is the account that the gang names, where not every machine accepts it. Refused: none does.
	Account Account
	Refused bool
	// Unmet is what no machine here has, where somebody has looked for it.
	Unmet string

	rate  rate
	split Split
}

// refuse writes down why the search found nothing.
func (s *search) refuse(r *Refusal) {
	plan := &s.f.plan
	t := min(s.widest, plan.racks())
	tier := &s.lens.tiers[t]
	*r = Refusal{
		Level: s.f.levelOf(s.widest), Units: s.demand.units, Idle: s.idle,
		rate: s.demand.rate, split: s.g.Split, Named: len(s.g.Only) > 0, Excluded: len(s.g.Exclude) > 0,
		Avoided: len(s.g.Avoid) > 0, Closing: len(s.g.Closing) > 0, Account: s.g.Account,
	}
	if s.lens.tiers[0].total[0] == 0 {
		r.Cause, r.Refused = NoMatch, !s.f.accepted(s.g.Account)
		return
	}
	if s.widest > plan.racks() {
		s.refuseNode(r)
		return
	}
	best := tier.most()
	r.Domain = plan.tiers[t].domains[best].path
	r.Room, r.Free, r.Total = tier.units[best], tier.free[best], tier.total[best]
}

// refuseNode names the machine that holds the most.
func (s *search) refuseNode(r *Refusal) {
	var all uint64
	for i := range s.lens.cells {
		all = max(all, s.lens.cells[i].loose|s.lens.cells[i].whole)
	}
	top := bits.Len64(all)
	for i := range s.lens.cells {
		if bits.Len64(s.lens.cells[i].loose|s.lens.cells[i].whole) != top {
			continue
		}
		sh := s.f.plan.shelves[i]
		for j := range sh.rooms {
			if _, size, _ := s.lens.look(sh, j); size > r.Room || r.Domain == "" {
				room, _ := s.lens.seen(sh, j)
				r.Domain, r.Room = string(sh.seats[j].id), size
				r.Free, r.Total = s.lens.currency(&room)
			}
		}
	}
}

// String is the short answer for people.
func (r *Refusal) String() string {
	if r == nil {
		return "fits now"
	}
	switch r.Cause {
	case Senseless:
		return r.Text
	case NoSuchLevel:
		return "unknown topology level " + strconv.Quote(r.Level)
	case NoMatch:
		if r.Refused {
			return r.Account.words()
		}
		if r.Unmet != "" {
			return r.wants() + "; " + r.Unmet
		}
		return r.wants() + "; no node matches"
	}
	return r.wants() + "; " + r.has()
}

// wants says what the gang asks for.
func (r *Refusal) wants() string {
	text := "needs "
	if r.Patient {
		text = "prefers one " + r.Level + ": needs "
	}
	text += r.amount(r.Units)
	if r.split == SplitNone && r.Units > 1 {
		text += " (" + strconv.FormatInt(r.Units, 10) + " tasks of " + r.amount(1)
		if r.rate.apart {
			text += ", each on a separate node"
		}
		text += ")"
	}
	if r.rate.whole {
		text += " in whole nodes"
	}
	switch r.Level {
	case "":
	case NodeLevel:
		text += " on one node"
	default:
		text += " within one " + r.Level
	}
	if r.Account.Name != "" {
		text += " as user " + r.Account.Name
	}
	if r.Named {
		text += " on named nodes"
	}
	if r.Excluded {
		text += " without excluded nodes"
	}
	if r.Avoided {
		text += " without nodes where it failed"
	}
	if r.Closing {
		text += " without nodes that drain before it would end"
	}
	return text
}

// has says what there is, in the best place.
func (r *Refusal) has() string {
	where := "the cluster has "
	switch {
	case r.Level == NodeLevel:
		where = "the best node, " + r.Domain + ", has "
	case r.Level != "":
		where = "the best " + r.Level + ", " + r.Domain + ", has "
	case r.Named:
		where = "they have "
	}
	text := where + r.money(r.Free) + " free of " + r.money(r.Total)
	if r.Idle {
		text = where + r.money(r.Total) + " in all"
	}
	if usable := r.Room * r.unit(); usable < r.Free {
		most := "no more than " + r.money(usable)
		if usable == 0 {
			most = "none"
		}
		text += ", of which " + most + " can be used: " + r.rest()
	}
	return text
}

// rest says why not all of it can be used.
func (r *Refusal) rest() string {
	switch {
	case r.rate.apart && r.Near.Node == "":
		return "a node runs at most one task"
	case !r.Near.Looked:
		return "the rest is in pieces or lacks CPU or memory"
	case r.Near.Node == "":
		return "the rest is in pieces"
	case r.Idle:
		return r.Near.words(r.split) + " in all"
	}
	return r.Near.words(r.split) + " free"
}

// unit is one unit of the gang in the currency of Free and Total.
func (r *Refusal) unit() int64 {
	switch {
	case r.rate.part > 0:
		return 1
	case r.rate.gpus > 0:
		return r.rate.gpus
	case r.rate.cpu > 0:
		return r.rate.need(1).MilliCPU
	}
	return r.rate.mem
}

// amount writes a number of units for people.
func (r *Refusal) amount(units int64) string {
	switch {
	case r.rate.part > 0:
		return decimal(r.rate.part) + " of a GPU"
	case r.rate.gpus > 0:
		return count(units*r.rate.gpus, "GPU")
	}
	amount := units * r.unit()
	if r.rate.cpu > 0 {
		if amount == 1000 {
			return "1 core"
		}
		return decimal(amount) + " cores"
	}
	return bytes(amount)
}

// money writes an amount of the currency for people.
func (r *Refusal) money(n int64) string {
	switch {
	case r.rate.part > 0 || r.rate.gpus > 0:
		return strconv.FormatInt(n, 10)
	case r.rate.cpu > 0:
		return decimal(n)
	}
	return bytes(n)
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

// decimal writes thousandths.
func decimal(milli int64) string {
	text := strconv.FormatInt(milli/1000, 10)
	if rest := milli % 1000; rest != 0 {
		digits := strconv.FormatInt(1000+rest, 10)[1:]
		text += "." + strings.TrimRight(digits, "0")
	}
	return text
}

// bytes writes an amount of memory in the largest binary unit that is exact to
// a tenth.
func bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i, tenths := 0, n*10
	for i < len(units)-1 && tenths >= 10240 {
		tenths /= 1024
		i++
	}
	return decimal(tenths*100) + " " + units[i]
}
