package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the current and past usage of each owner and queue. GPUs are summed over time from the COMMIT of an
// attempt to its end. The sums start with this leader and use its steady clock.

// Share holds the current and past usage of one owner or one queue. GPUs are in thousandths.
type Share struct {
	Name             string
	Running, Waiting int64 // jobs, as messages.UseOf counts them
	Held, Wanted     int64 // GPUs of the running and of the waiting jobs
	Spent            int64 // GPUs of committed attempts times milliseconds, under this leader
}

// usage holds the sums by owner and by queue.
type usage struct{ owners, queues shares }

func newUsage() usage { return usage{owners: shares{}, queues: shares{}} }

// shares holds the accounts of all owners, or of all queues, by name.
type shares map[string]*account

// account holds a share and the time up to which it is summed.
type account struct {
	Share
	committed int64 // GPUs of attempts, from COMMIT to their end
	paid      actors.Instant
}

// maxShares limits the number of separate names. All later names share one account without a name.
const maxShares = 10_000

// of returns an account that is summed up to now, so that the caller may change its holdings.
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

// pay adds the usage up to now, in complete milliseconds.
func (a *account) pay(now actors.Instant) {
	if ms := now.Since(a.paid).Milliseconds(); ms > 0 {
		a.paid = a.paid.Plus(actors.Millis(ms))
		a.Spent += a.committed * ms
	}
}

// all returns the shares sorted by name, summed up to now.
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

// change replaces the amounts that a job adds to the shares.
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

// queuesNow returns the shares of all queues. Jobs without a queue count in the default queue, if there is one.
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

// These distributions are reported at a COMMIT: the job's wait, and the difference between its start and the first
// estimate.
const (
	TookWait  = "job.wait"
	TookLate  = "promise.late"
	TookEarly = "promise.early"
)

// charge updates the shares with the amounts of a job. The argument ok reports whether the job was shown before.
func (m *Mirror) charge(s *shownJob, ok bool) {
	before := s.counts
	s.counts = tallyOf(before, s.JobStatus)
	m.usage.change(m.p.Clock.Now(), before, s.counts)
	if ok && s.counts.of != (topology.Token{}) && before.of != s.counts.of {
		m.measure(s.JobStatus)
	}
}

// measure reports the wait of a job, and the error of its first estimate, to the host. It compares times of day that
// may come from two leaders, so the values are for operators only.
func (m *Mirror) measure(s *messages.JobStatus) {
	a := s.GetAttempt()
	if a.GetInherited() != nil {
		return // it did not wait in the queue
	}
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
