// Package election lets one of several processes hold the lease and keep it while it leads. It reads the clock, queries
// the database, and waits. Package cluster/lease decides which query is due and when the process must end. The caller
// decides the effect of leading. The leading process also deletes old finished jobs here.
package election

import (
	"context"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/cluster/lease"
	"github.com/yi-json/synapse/store"
)

// Lease is the lease in the database, which uses the database's clock only.
type Lease interface {
	Lead(holder string) (epoch uint64, err error)
	Renew(epoch uint64) error
	Leading() (store.Leadership, error)
}

// Clock is the local clock and the means to wait.
type Clock interface {
	Now() actors.Instant
	After(d time.Duration) <-chan time.Time
}

// Options configure a candidate.
type Options struct {
	lease.Options
	Lease Lease
	Clock Clock // nil: the real one
}

// Candidate is one process that may lead.
type Candidate struct{ o Options }

// New returns a candidate.
func New(o Options) *Candidate {
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	return &Candidate{o: o}
}

// Stand waits until this process leads. If ctx ends first, it returns the error of ctx.
func (c *Candidate) Stand(ctx context.Context) (*lease.Reign, error) {
	standing := lease.Stand(c.o.Options)
	for ctx.Err() == nil {
		step := standing.Next(c.o.Clock.Now())
		switch step.Ask {
		case lease.Look:
			leads, err := c.o.Lease.Leading()
			standing.Looked(c.o.Clock.Now(), leads, err)
			continue
		case lease.Take:
			epoch, err := c.o.Lease.Lead(c.o.Holder.String())
			if reign, ok := standing.Took(c.o.Clock.Now(), epoch, err); ok {
				return reign, nil
			}
			continue
		}
		select {
		case <-c.o.Clock.After(step.Wait):
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// Hold keeps the lease until it is lost, or until ctx ends, which is not an error.
func (c *Candidate) Hold(ctx context.Context, r *lease.Reign) error {
	answers := make(chan error, 1) // at most one query is in progress, and its answer may never be read
	for {
		step, err := r.Next(c.o.Clock.Now())
		if err != nil {
			return err
		}
		if step.Ask == lease.Renew {
			go func() { answers <- c.o.Lease.Renew(r.Epoch) }()
		}
		select {
		case <-c.o.Clock.After(step.Wait):
		case <-ctx.Done():
			return nil
		case err := <-answers:
			r.Renewed(c.o.Clock.Now(), err)
		}
	}
}

// realClock includes the time in which the host was suspended.
type realClock struct{ clock.Real }

func (realClock) Now() actors.Instant { return actors.Instant(clock.BootNs()) }
