package goodput

import "github.com/yi-json/synapse/topology"

// This file owns what an attempt has done, so that it can be told from then on as lost.

// attempt counts an attempt that is or was productive, and of which nobody has told the end.
type attempt struct {
	owner, queue string
	rate         int64
	paid         int64
	days         []done
	over         bool // its end was told, and a machine has not heard yet
}

// done holds the work of one day.
type done struct{ day, amount int64 }

// run counts what is productive for its attempt, too.
func (m *Meter) run(s *Share) {
	if s.Class != Productive || s.Token == (topology.Token{}) {
		return
	}
	r := m.runOf(s)
	r.pay(m.now)
	r.rate += s.Milli
	if r.over && r.rate == 0 {
		delete(m.runs, s.Token)
	}
}

// adopt notes what the attempts on a machine did before this meter heard of it, which was counted as productive.
func (m *Meter) adopt(u *Unit) {
	for i := range u.Shares {
		if s := &u.Shares[i]; s.Class == Productive {
			m.runOf(s).spread(s.Milli, max(s.Began, m.since), m.now)
		}
	}
}

func (m *Meter) runOf(s *Share) *attempt {
	r := m.runs[s.Token]
	if r == nil {
		r = &attempt{owner: s.Owner, queue: s.Queue, paid: m.now}
		m.runs[s.Token] = r
	}
	return r
}

func (r *attempt) pay(now int64) {
	r.spread(r.rate, r.paid, now)
	r.paid = max(r.paid, now)
}

// spread counts what was productive from one time to another.
func (r *attempt) spread(milli, from, to int64) {
	if milli == 0 {
		return
	}
	eachDay(from, to, func(day, ms int64) {
		for i := range r.days {
			if r.days[i].day == day {
				r.days[i].amount += milli * ms
				return
			}
		}
		r.days = append(r.days, done{day, milli * ms})
	})
}

// Ended says that an attempt has ended, and whether what it did is lost.
func (m *Meter) Ended(now int64, t topology.Token, cause int32, isLost bool) {
	r := m.runs[t]
	if r == nil {
		return
	}
	m.advance(now)
	r.pay(m.now)
	if isLost {
		m.lose(r, cause)
	}
	r.days, r.over = nil, true
	if r.rate == 0 {
		delete(m.runs, t)
	}
	m.moved = true
}

// lose moves what an attempt did to what is lost. It never moves more than was counted for its owner and its queue: of
// an attempt that began before anybody counted, or ended where nobody did, it may have done more.
func (m *Meter) lose(r *attempt, cause int32) {
	if cause < 0 || cause >= Causes {
		cause = 0
	}
	for _, d := range r.days {
		kept, n := m.counted(r, d.day), d.amount
		for _, sum := range kept {
			n = min(n, max(sum.Of[Productive], 0))
		}
		for _, sum := range kept {
			sum.Of[Productive] -= n
			sum.Of[Lost] += n
			sum.Lost[cause] += n
		}
	}
}

// counted are the sums that an attempt counts in on a day, up to now: those that are not forgotten.
func (m *Meter) counted(r *attempt, day int64) (kept []*Amounts) {
	today := m.now / dayMs
	for i, name := range [Kinds]string{Owners: r.owner, Queues: r.queue} {
		kind := Kind(i)
		if day <= today-maxDays || kind != Cluster && day <= today-maxNamedDays {
			continue
		}
		if day == today {
			m.row(kind, name).pay(m.now)
		}
		kept = append(kept, m.past(kind, day, name))
	}
	return kept
}

// Past is an attempt that ended after the last record, of which the leader that wrote it counted the beginning.
type Past struct {
	Owner, Queue string
	Began, Ended int64
	Milli        int64
	Cause        int32
}

// Recall goes on from what others counted up to a time. It comes first.
func (m *Meter) Recall(since, until int64, rows []Row) {
	m.since, m.from = since, min(until, m.now)
	for i := range rows {
		r := &rows[i]
		m.rows[key{r.Kind, r.Day, r.Name}] = &openRow{paid: m.now, sum: r.Amounts}
		if r.Day == m.now/dayMs {
			m.names[r.Kind]++
		}
	}
}

// LostSince moves what such an attempt did, as far as it was counted, to what is lost.
func (m *Meter) LostSince(p *Past) {
	r := attempt{owner: p.Owner, queue: p.Queue}
	r.spread(p.Milli, max(p.Began, m.since), min(p.Ended, m.from))
	m.lose(&r, p.Cause)
}
