// Package leader owns when this process leads: with several schedulers on one
// database, one has the lease and the others stand by until it runs out. It
// counts time and asks the database; what leading means is its caller's.
//
// Nothing here keeps an old leader from writing or from commanding machines: the
// epoch does, in the store and on every machine. The lease only settles who may
// try, and lets a leader end before others may begin.
package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
)

// Lease is the database's: who leads, by its clock alone.
type Lease interface {
	Lead(holder string) (epoch uint64, err error)
	Renew(epoch uint64) error
	Leading() (postgres.Leadership, error)
}

// Clock is the time as this process sees it, and the way to wait.
type Clock interface {
	Now() actors.Instant
	After(d time.Duration) <-chan time.Time
}

// The parts of a lease. A leader renews at a third, so that one answer may be
// lost. It stops a tenth early: its clock and the database's may drift, and it
// is not always run at once. Who stands by looks often enough that a lease that
// was given back is taken within the second.
const (
	renewals   = 3
	safety     = 10
	retries    = 12
	looksEvery = 250 * time.Millisecond
)

// ErrLost: this process may no longer lead. The error around it says why.
var ErrLost = errors.New("this scheduler no longer leads")

// Options are what a process gives its candidate.
type Options struct {
	Lease  Lease
	Holder Holder
	Term   time.Duration // for how long nobody else may lead after Lead or Renew
	Clock  Clock         // nil: the real one
	Log    actors.Log
	// Follow is told who leads whenever that changes, while this process does
	// not: host:port, or nothing where nobody does.
	Follow func(address string)
}

// Candidate is one process that may lead.
type Candidate struct {
	o        Options
	followed string
	trouble  string // that was last logged, so that an outage is one line
}

// New makes a candidate.
func New(o Options) *Candidate {
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	return &Candidate{o: o}
}

// Reign is a leadership that was won.
type Reign struct {
	Epoch uint64
	since actors.Instant // before the call that won it: the lease runs at least a term from here
}

// Stand waits until this process leads. It ends with ctx's error otherwise.
func (c *Candidate) Stand(ctx context.Context) (Reign, error) {
	for ctx.Err() == nil {
		reign, won := c.look()
		if won {
			c.followed, c.trouble = "", ""
			return reign, nil
		}
		select {
		case <-c.o.Clock.After(looksEvery):
		case <-ctx.Done():
		}
	}
	return Reign{}, ctx.Err()
}

// look takes the lease if it is free.
func (c *Candidate) look() (Reign, bool) {
	leads, err := c.o.Lease.Leading()
	if err != nil {
		c.troubled("The database does not say who leads, and nothing is decided until it does: %v", err)
		return Reign{}, false
	}
	c.calm()
	if leads.Left > 0 && leads.Holder != c.o.Holder.String() {
		c.follow(leads)
		return Reign{}, false
	}
	sent := c.o.Clock.Now()
	epoch, err := c.o.Lease.Lead(c.o.Holder.String())
	switch {
	case errors.Is(err, postgres.ErrLed):
		return Reign{}, false // another one was faster, and the next look tells who
	case err != nil:
		c.troubled("Taking over the leadership failed: %v", err)
		return Reign{}, false
	case c.left(sent) <= 0:
		c.troubled("Taking over the leadership took longer than the lease; trying again")
		return Reign{}, false
	}
	return Reign{Epoch: epoch, since: sent}, true
}

func (c *Candidate) follow(leads postgres.Leadership) {
	if leads.Holder == c.followed {
		return
	}
	c.followed = leads.Holder
	at := holderOf(leads.Holder).Address
	c.o.Log.Info("Standing by: %s leads (epoch %d)", at, leads.Epoch)
	c.o.Follow(at)
}

// left is how long this process may still lead after a lease that was asked for then.
func (c *Candidate) left(sent actors.Instant) time.Duration {
	return c.o.Term - c.o.Term/safety - c.o.Clock.Now().Since(sent)
}

// renewed is the database's answer to one renewal.
type renewed struct {
	sent actors.Instant
	err  error
}

// Hold keeps the lease until ctx ends, which is no error, or until it is lost.
// It never waits for the database: an answer that comes too late is no answer.
func (c *Candidate) Hold(ctx context.Context, r Reign) error {
	answers := make(chan renewed, 1) // one is under way at most, and nobody may be left to take it
	asked := false
	next := r.since.Plus(c.o.Term / renewals)
	for {
		left := c.left(r.since)
		if left <= 0 {
			return fmt.Errorf("%w (its epoch was %d): the lease could not be renewed in time, and another one may take over", ErrLost, r.Epoch)
		}
		wait := left
		if !asked {
			if wait = next.Since(c.o.Clock.Now()); wait <= 0 {
				asked, wait = true, left
				go func(sent actors.Instant) { answers <- renewed{sent, c.o.Lease.Renew(r.Epoch)} }(c.o.Clock.Now())
			}
		}
		select {
		case <-c.o.Clock.After(min(wait, left)):
		case <-ctx.Done():
			return nil
		case a := <-answers:
			asked = false
			switch {
			case errors.Is(a.err, store.ErrDeposed):
				return fmt.Errorf("%w (its epoch was %d): another one took over", ErrLost, r.Epoch)
			case a.err != nil:
				c.troubled("The lease was not renewed: %v", a.err)
				next = c.o.Clock.Now().Plus(c.o.Term / retries)
			default:
				c.calm()
				r.since, next = a.sent, a.sent.Plus(c.o.Term/renewals)
			}
		}
	}
}

// troubled logs what is wrong, once as long as it stays the same kind of trouble.
func (c *Candidate) troubled(format string, args ...any) {
	if c.trouble != format {
		c.trouble = format
		c.o.Log.Info(format, args...)
	}
}

func (c *Candidate) calm() {
	if c.trouble != "" {
		c.trouble = ""
		c.o.Log.Info("The database answers again")
	}
}

// Holder is one process's name in the lease: where it is reached, and what tells
// it from every other process, those before it at the same address too. Else two
// that were given one address would depose each other for ever.
type Holder struct{ Address, Process string }

// String is how it stands in the database.
func (h Holder) String() string { return h.Address + " " + h.Process }

func holderOf(text string) Holder {
	address, process, _ := strings.Cut(text, " ")
	return Holder{Address: address, Process: process}
}

// realClock counts the time that the machine was asleep, too.
type realClock struct{}

func (realClock) Now() actors.Instant                    { return host.Clock{}.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
