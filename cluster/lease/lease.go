// Package lease decides when a process may lead, where several share one database: the holder of the lease leads, and
// the others wait until it runs out. It consists of values that receive the time and the database's answers, and say
// what to ask next. It must never wait, read a clock or call a database: cluster/election does that for a real process,
// and sim for a simulated one.
//
// Nothing here keeps an old leader from writing or from commanding machines: the epoch does, in the store and on every
// machine. The lease only decides which process may try, and lets a leader end before others may begin.
package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// The parts of a lease. A leader renews after a third of it, so that one answer may be lost. It stops a tenth early:
// its clock and the database's may drift, and the machine may not run it at once. A standby looks often enough that a
// lease which was given back is taken within the second.
const (
	renewals   = 3
	Safety     = 10
	retries    = 12
	LooksEvery = 250 * time.Millisecond
)

// ErrLost means that this process may no longer lead. The error around it says why.
var ErrLost = errors.New("this scheduler no longer leads")

// Question names a request to the database.
type Question uint8

// The questions. Each is answered by the method of its name in the past tense.
const (
	Nothing Question = iota
	Look             // who leads?
	Take             // take the lease
	Renew            // make it run from now
)

// Step holds the next action: send the request, and return after the wait, or with the answer if that is earlier.
type Step struct {
	Ask  Question
	Wait time.Duration // 0: until the answer
}

// Holder is one process's name in the lease: its address, and what tells it from every other process, earlier ones at
// the same address included. Otherwise two that were given one address would depose each other for ever.
type Holder struct{ Address, Process string }

// String is the holder as it is written in the database.
func (h Holder) String() string { return h.Address + " " + h.Process }

func holderOf(text string) Holder {
	address, process, _ := strings.Cut(text, " ")
	return Holder{Address: address, Process: process}
}

// Options holds the settings of a candidate.
type Options struct {
	Holder Holder
	Term   time.Duration // for how long no other process may lead after Take or Renew
	Log    actors.Log
	// Follow is called with the leader's host:port whenever that changes while this process does not lead; it is empty
	// where none leads.
	Follow func(address string)
}

// Candidate is a process that stands by until it leads.
type Candidate struct {
	o        Options
	followed string
	trouble  trouble
	free     bool           // the lease was free at the last look
	asked    bool           // a question is not answered yet
	sent     actors.Instant // when Take was asked
	next     actors.Instant // when to look again
}

// Stand makes a candidate.
func Stand(o Options) *Candidate { return &Candidate{o: o, trouble: trouble{log: o.Log}} }

// Next says what to do at this time.
func (c *Candidate) Next(now actors.Instant) Step {
	switch {
	case c.asked:
		return Step{}
	case c.free:
		c.asked, c.sent = true, now
		return Step{Ask: Take}
	case now >= c.next:
		c.asked = true
		return Step{Ask: Look}
	}
	return Step{Wait: c.next.Since(now)}
}

// Looked takes the answer to Look.
func (c *Candidate) Looked(now actors.Instant, leads store.Leadership, err error) {
	c.asked, c.next = false, now.Plus(LooksEvery)
	if err != nil {
		c.trouble.is("The database does not report the leader, and no job starts until it does: %v", err)
		return
	}
	c.trouble.over()
	c.free = leads.Left <= 0 || leads.Holder == c.o.Holder.String()
	if !c.free && leads.Holder != c.followed {
		c.followed = leads.Holder
		at := holderOf(leads.Holder).Address
		c.o.Log.Info("Standing by: %s leads (epoch %d)", at, leads.Epoch)
		c.o.Follow(at)
	}
}

// Took takes the answer to Take, and reports whether this process leads now.
func (c *Candidate) Took(now actors.Instant, epoch uint64, err error) (*Reign, bool) {
	c.asked, c.free, c.next = false, false, now.Plus(LooksEvery)
	switch {
	case errors.Is(err, store.ErrLed): // another one was faster, and the next look says which
	case err != nil:
		c.trouble.is("Taking over the leadership failed: %v", err)
	case left(c.o.Term, c.sent, now) <= 0:
		c.trouble.is("Taking over the leadership took longer than the lease; retrying")
	default:
		c.followed, c.trouble.kind = "", ""
		return &Reign{
			Epoch: epoch, term: c.o.Term, since: c.sent, next: c.sent.Plus(c.o.Term / renewals),
			trouble: trouble{log: c.o.Log},
		}, true
	}
	return nil, false
}

// left is how long a process may still lead if it asked for its lease at sent.
func left(term time.Duration, sent, now actors.Instant) time.Duration {
	return term - term/Safety - now.Since(sent)
}

// Reign is a leadership that was won.
type Reign struct {
	Epoch   uint64
	term    time.Duration
	since   actors.Instant // before the call that won or renewed it: the lease runs at least a term from here
	next    actors.Instant // when to renew
	asked   bool           // a renewal is not answered yet
	sent    actors.Instant // when it was asked
	deposed bool
	trouble trouble
}

// Next says what to do at this time, or why this process no longer leads. It never waits for the database: an answer
// that comes too late counts as none.
func (r *Reign) Next(now actors.Instant) (Step, error) {
	left := left(r.term, r.since, now)
	switch {
	case r.deposed:
		return Step{}, fmt.Errorf("%w (its epoch was %d): another scheduler took over", ErrLost, r.Epoch)
	case left <= 0:
		const inTime = "%w (its epoch was %d): the lease could not be renewed in time, and another scheduler " +
			"may take over"
		return Step{}, fmt.Errorf(inTime, ErrLost, r.Epoch)
	case r.asked:
		return Step{Wait: left}, nil
	case now >= r.next:
		r.asked, r.sent = true, now
		return Step{Ask: Renew, Wait: left}, nil
	}
	return Step{Wait: min(left, r.next.Since(now))}, nil
}

// Renewed takes the answer to Renew.
func (r *Reign) Renewed(now actors.Instant, err error) {
	r.asked = false
	switch {
	case errors.Is(err, store.ErrDeposed):
		r.deposed = true
	case err != nil:
		r.trouble.is("The lease was not renewed: %v", err)
		r.next = now.Plus(r.term / retries)
	default:
		r.trouble.over()
		r.since, r.next = r.sent, r.sent.Plus(r.term/renewals)
	}
}

// trouble logs once as long as its kind stays the same, so that an outage is one line.
type trouble struct {
	log  actors.Log
	kind string
}

func (t *trouble) is(format string, args ...any) {
	if t.kind != format {
		t.kind = format
		t.log.Info(format, args...)
	}
}

func (t *trouble) over() {
	if t.kind != "" {
		t.kind = ""
		t.log.Info("The database answers again")
	}
}
