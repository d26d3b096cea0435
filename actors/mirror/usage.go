package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns who has how much, and has had: each owner's and each queue's GPUs, summed over time from the COMMIT of
// an attempt to its end. It goes by the steady clock of this leader, and begins with it.

// Share holds the current and past usage of one owner or one queue. GPUs are in thousandths.
type Share struct {
	Name             string
	Running, Waiting int64 // jobs, as messages.UseOf counts them
	Held, Wanted     int64 // GPUs of those
	Spent            int64 // GPUs of committed attempts, times milliseconds, since this leader took over
}

// usage holds the sums by owner and by queue.
type usage struct{ owners, queues shares }

func newUsage() usage { return usage{owners: shares{}, queues: shares{}} }

// shares holds the accounts of all owners, or of all queues, by name.
type shares map[string]*account

// account is a share, and up to when what its attempts hold is summed.
type account struct {
	Share
	committed int64 // GPUs of attempts, from COMMIT to their end
	paid      actors.Instant
}

// maxShares bounds the names that are told apart; those that come later are one, without a name.
const maxShares = 10_000

// of finds a share, paid up to now, so that what it holds may change.
func (s shares) of(name string, now actors.Instant) *account {
	one := s[name]
	if one == nil && len(s) >= maxShares {
		name = ""
		one = s[name]
	}
	if one == nil {
		one = &account{Share: Share{Name: name}, paid: now}
		s[name] = one
	}
	one.pay(now)
	return one
}

// pay sums what was held up to now, in whole milliseconds.
func (a *account) pay(now actors.Instant) {
	if ms := now.Since(a.paid).Milliseconds(); ms > 0 {
		a.paid = a.paid.Plus(actors.Millis(ms))
		a.Spent += a.committed * ms
	}
}

// all are the shares in the order of names, paid up to now.
func (s shares) all(now actors.Instant) []Share {
	all := make([]Share, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		s[name].pay(now)
		all = append(all, s[name].Share)
	}
	return all
}

// tally holds the amounts that a job adds to the shares of its owner and its queue.
type tally struct {
	owner, queue string
	use          messages.JobUse
	committed    int64          // GPUs of the attempt, from COMMIT to its end
	of           topology.Token // that attempt
}

// tallyOf computes the tally of a job. The holdings of an attempt are summed once: a gang may have thousands of members
// and is updated at the end of each.
func tallyOf(before tally, s *messages.JobStatus) tally {
	r, a := s.GetRecord(), s.GetAttempt()
	c := tally{owner: r.GetOwner().GetName(), queue: r.GetSpec().GetQueue(), use: messages.UseOf(s)}
	token := messages.FromToken(a.GetToken())
	switch {
	case messages.Waits(s.GetPhase()) || a.GetCommittedUnixMs() == 0 || a.GetEnd() != nil || r.GetState().Terminal():
	case token == before.of:
		c.committed, c.of = before.committed, token
	default:
		c.of = token
		for _, p := range a.GetPlaces() {
			c.committed += p.GetGrant().GetAmount().GetMilliGpu()
		}
	}
	return c
}

// change moves a job from what it counted for to what it counts for now.
func (u *usage) change(now actors.Instant, before, after tally) {
	if before == after {
		return
	}
	for _, c := range []struct {
		tally
		sign int64
	}{{before, -1}, {after, 1}} {
		if c.tally == (tally{}) {
			continue
		}
		for _, s := range []*account{u.owners.of(c.owner, now), u.queues.of(c.queue, now)} {
			s.Running += c.sign * c.use.Running
			s.Waiting += c.sign * c.use.Waiting
			s.Held += c.sign * c.use.InUse.MilliGPU
			s.Wanted += c.sign * c.use.Wanted.MilliGPU
			s.committed += c.sign * c.committed
		}
	}
}

// queuesNow are the shares of all queues. Jobs that name no queue count in the default queue, if there is one.
func (m *Mirror) queuesNow(now actors.Instant) []Share {
	all, usual := m.usage.queues.all(now), m.queues.GetQueues().GetDefault()
	if usual == "" || len(all) == 0 || all[0].Name != "" {
		return all
	}
	none := all[0]
	all = all[1:]
	byName := func(s Share, name string) int { return strings.Compare(s.Name, name) }
	at, found := slices.BinarySearchFunc(all, usual, byName)
	if !found {
		all = slices.Insert(all, at, Share{Name: usual})
	}
	s := &all[at]
	s.Running, s.Waiting = s.Running+none.Running, s.Waiting+none.Waiting
	s.Held, s.Wanted, s.Spent = s.Held+none.Held, s.Wanted+none.Wanted, s.Spent+none.Spent
	return all
}

// The distributions of what a COMMIT shows: how long its job had waited, and by how much it came later or earlier than
// what the job was told first.
const (
	TookWait  = "job.wait"
	TookLate  = "promise.late"
	TookEarly = "promise.early"
)

// charge carries what a job counts for into the shares. Ok: the job was shown before.
func (m *Mirror) charge(s *shownJob, ok bool) {
	before := s.counts
	s.counts = tallyOf(before, s.JobStatus)
	m.usage.change(m.p.Clock.Now(), before, s.counts)
	if ok && s.counts.of != (topology.Token{}) && before.of != s.counts.of {
		m.measure(s.JobStatus)
	}
}

// measure tells the host of times of day that one leader noted, or two: they are for people.
func (m *Mirror) measure(s *messages.JobStatus) {
	a := s.GetAttempt()
	m.p.Host.Took(TookWait, actors.Millis(max(a.GetCommittedUnixMs()-s.GetRecord().GetSubmittedUnixMs(), 0)))
	if told := a.GetTold(); told != nil {
		late := actors.Millis(a.GetCommittedUnixMs() - told.GetToldUnixMs() - told.GetExpectedMs())
		if late >= 0 {
			m.p.Host.Took(TookLate, late)
		} else {
			m.p.Host.Took(TookEarly, -late)
		}
	}
}
