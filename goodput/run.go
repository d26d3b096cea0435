package goodput

import "github.com/yi-json/synapse/topology"

// This file counts the work of each attempt, so that the work can be counted as lost later.

// attempt is the work of an attempt that is or was productive and whose end has not been reported.
type attempt struct {
	owner, queue string
	rate         int64
	paid         int64
	days         []done
	saved        int64 // when its gang last acknowledged a checkpoint
	over         bool  // the end was reported, but a node still reports the attempt
}

// done holds the work of one day.
type done struct{ day, amount int64 }

// run adds a productive share to its attempt.
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

// adopt adds the earlier work of the attempts on a node, which Set has just counted as productive.
func (m *Meter) adopt(u *Unit) {
	for i := range u.Shares {
		if s := &u.Shares[i]; s.Class == Productive {
			r := m.runOf(s)
			r.spread(s.Milli, max(s.Began, m.since, r.saved), m.now)
		}
	}
}

func (m *Meter) runOf(s *Share) *attempt {
	r := m.runs[s.Token]
	if r == nil {
		r = &attempt{owner: s.Owner, queue: s.Queue, paid: m.now, saved: s.Saved}
		m.runs[s.Token] = r
	}
	return r
}

func (r *attempt) pay(now int64) {
	r.spread(r.rate, r.paid, now)
	r.paid = max(r.paid, now)
}

// spread adds work between two times to the days of that time span.
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

// Saved reports that the gang of an attempt acknowledged a checkpoint. The work before that time is never lost.
func (m *Meter) Saved(now int64, t topology.Token, at int64) {
	if r := m.runs[t]; r != nil && !r.over && at > r.saved {
		m.advance(now)
		r.pay(m.now)
		r.save(at, m.now)
	}
}

// save forgets the work before a checkpoint. All nodes have had the attempt since then.
func (r *attempt) save(at, now int64) {
	r.saved, r.days = at, nil
	r.spread(r.rate, at, now)
}

// Ended reports the end of an attempt, and whether its work is lost.
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

// lose moves the work of an attempt from Productive to Lost. It moves at most the amount that was counted for the owner
// and the queue. The attempt may have done more if a part of it was not measured.
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

// counted returns the sums of one day that include the attempt, without deleted days.
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

// Past is an attempt that ended after the last record of an earlier leader, which had counted the beginning of the
// attempt.
type Past struct {
	Owner, Queue string
	Began, Ended int64
	Milli        int64
	Cause        int32
}

// Recall restores the sums of earlier leaders. The caller calls it first, before any other method.
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

// LostSince moves the counted work of such an attempt to Lost.
func (m *Meter) LostSince(p *Past) {
	r := attempt{owner: p.Owner, queue: p.Queue}
	r.spread(p.Milli, max(p.Began, m.since), min(p.Ended, m.from))
	m.lose(&r, p.Cause)
}
