package topology

// This file has the refusals: the short reason why a gang does not start.

import (
	"math/bits"
	"strconv"
	"strings"
)

// Cause is the kind of a refusal.
type Cause uint8

const (
	// NoRoom: the capacity may exist, but it is not free, or not close enough together.
	NoRoom Cause = iota
	// NoMatch: no node has the requested properties.
	NoMatch
	// Senseless: the request is invalid on every cluster.
	Senseless
	// NoSuchLevel: the tree has no level with this name.
	NoSuchLevel
)

// Refusal is the reason why a gang has no place, with numbers that were current when it was created. It has no pointers
// to separate memory, so that a refusal needs no allocation.
type Refusal struct {
	Cause Cause
	Text  string // the reason if Cause is Senseless
	// Level is the level of the domain that must contain the complete gang, and "" for anywhere. Domain is the
	// domain of that level that holds the most of it.
	Level  string
	Domain string
	// Units is the number of requested units. Room is the number of units that the best domain holds. A unit is a
	// task. In a total, a unit is one GPU or one core.
	Units, Room int64
	// Free and Total are the free and all resources of matching nodes in the best domain, in devices, milli-CPU or
	// bytes.
	Free, Total int64
	// Idle: the gang would not fit even if all nodes were idle and in service.
	Idle bool
	// Patient: a coarser level will be allowed later.
	Patient bool
	// Named: the gang names nodes, and only these were searched. Excluded: the gang excludes nodes. Avoided: the
	// leader excludes nodes for a while. Closing: some nodes will drain before the gang's latest end.
	Named, Excluded, Avoided, Closing bool
	// Near is the nearest node. It is set only by detail.
	Near Nearest
	// Account is the requested account, if not every node accepts it. Refused: no node accepts it.
	Account Account
	Refused bool
	// Unmet is the requirement that no node meets. It is set only by detail.
	Unmet string

	rate  rate
	split Split
}

// refuse writes the reason why the search found nothing.
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
		if s.f.isEmpty() {
			r.Unmet = noNode
		}
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

// refuseNode adds the node that holds the most.
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

// String returns the short reason as text.
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

// wants returns the request as text.
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

// has returns the resources of the best domain as text.
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

// rest returns why a part of the free resources is unusable.
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

// unit returns the size of one unit in the currency of Free and Total.
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

// amount formats a number of units.
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

// money formats an amount of the currency.
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

// decimal formats thousandths.
func decimal(milli int64) string {
	text := strconv.FormatInt(milli/1000, 10)
	if rest := milli % 1000; rest != 0 {
		digits := strconv.FormatInt(1000+rest, 10)[1:]
		text += "." + strings.TrimRight(digits, "0")
	}
	return text
}

// bytes formats an amount of memory in the largest binary unit, with one decimal digit.
func bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i, tenths := 0, n*10
	for i < len(units)-1 && tenths >= 10240 {
		tenths /= 1024
		i++
	}
	return decimal(tenths*100) + " " + units[i]
}
