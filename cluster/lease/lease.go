// Package lease decides when a process may lead if several share one database. The holder of the lease leads, and the
// others wait until it expires. The package consists of values that receive the time and the database's answers, and
// return the next query. It never waits, reads a clock or calls a database. Package cluster/election does that for a
// real process, and sim for a simulated one.
//
// The lease does not stop an old leader from writing or from commanding nodes. The epoch does, in the store and on
// every node. The lease only decides which process may try, and lets a leader end before others may begin.
package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// These are the parts of a lease. A leader renews after a third of the lease, so one lost answer does no harm. It stops
// a tenth early, because its clock may drift and its host may delay it. A standby checks often enough to take a
// released lease within a second.
const (
	renewals   = 3
	Safety     = 10
	retries    = 12
	LooksEvery = 250 * time.Millisecond
)

// ErrLost is returned if this process may no longer lead. The error that wraps it names the reason.
var ErrLost = errors.New("this scheduler no longer leads")

// Question names a query to the database.
type Question uint8

// These are the queries. Each is answered by the method with its name in the past tense.
const (
	Nothing Question = iota
	Look             // which process leads?
	Take             // take the lease
	Renew            // extend it from now
)

// Step holds the next action: send the query, and call Next again after the wait, or with the answer if that is
// earlier.
type Step struct {
	Ask  Question
	Wait time.Duration // 0: until the answer
}

// Holder is one process's name in the lease: its address, and a part that distinguishes it from every other process,
// including earlier ones at the same address. Without that part, two processes with one address would depose each other
// forever.
type Holder struct{ Address, Process string }

// String returns the holder as it is written in the database.
func (h Holder) String() string { return h.Address + " " + h.Process }

func holderOf(text string) Holder {
	address, process, _ := strings.Cut(text, " ")
	return Holder{Address: address, Process: process}
}

// Options holds the settings of a candidate.
type Options struct {
	Holder Holder
	Term   time.Duration // how long no other process may lead after Take or Renew
	Log    actors.Log
	// Follow is called with the leader's host:port after each change, while this process does not lead. The address is
	// empty if no process leads.
	Follow func(address string)
}

// Candidate is a process that stands by until it leads.
type Candidate struct {
	o        Options
	followed string
	trouble  trouble
	free     bool           // the lease was free at the last check
	asked    bool           // a query has no answer yet
	sent     actors.Instant // time of Take
	next     actors.Instant // time of the next check
}

// Stand returns a candidate.
func Stand(o Options) *Candidate { return &Candidate{o: o, trouble: trouble{log: o.Log}} }

// Next returns the action at this time.
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

// Looked handles the answer to Look.
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

// Took handles the answer to Take, and reports whether this process leads now.
func (c *Candidate) Took(now actors.Instant, epoch uint64, err error) (*Reign, bool) {
	c.asked, c.free, c.next = false, false, now.Plus(LooksEvery)
	switch {
	case errors.Is(err, store.ErrLed): // another process was faster, and the next check names it
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

// left returns how long a process may still lead if it requested its lease at sent.
func left(term time.Duration, sent, now actors.Instant) time.Duration {
	return term - term/Safety - now.Since(sent)
}

// Reign is a leadership that a process has won.
type Reign struct {
	Epoch   uint64
	term    time.Duration
	since   actors.Instant // before the query that won or renewed it: the lease runs at least a term from here
	next    actors.Instant // time of the next renewal
	asked   bool           // a renewal has no answer yet
	sent    actors.Instant // time of that query
	deposed bool
	trouble trouble
}

// Next returns the action at this time, or an error if this process no longer leads. It never waits for the database:
// an answer that comes too late counts as none.
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

// Renewed handles the answer to Renew.
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

// trouble logs a problem once while its kind stays the same, so an outage is one line.
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
