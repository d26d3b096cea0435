// Package health checks the machine itself: when its agent starts, before a slice is prepared, and after a task has
// failed. What a check finds is told to the Node, which decides what follows. A check that hangs keeps nobody waiting
// beyond its time, and no second one of its kind is begun while the first cannot be killed.
package health

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// Occasion is when a check is run. Several are combined.
type Occasion uint8

// The occasions.
const (
	Join    Occasion = 1 << iota // the agent has started
	Prepare                      // a slice is to be prepared
	Failure                      // a task has failed
	Aside                        // what is run around a job has failed
)

// Check is one. Look returns why the machine is not well, and gone where something was given up that may go on.
type Check struct {
	Name string
	When Occasion
	Look func(ctx context.Context) (gone <-chan struct{}, err error)
}

// Options holds the settings of a Runner.
type Options struct {
	Checks []Check
	// Again is after how long a check that failed is repeated; 0: 30 seconds.
	Again time.Duration
	// Tell is told whenever what is known has changed, one call after the other.
	Tell func(*messages.MachineHealth)
}

const defaultAgain = 30 * time.Second

// Runner runs a machine's checks.
type Runner struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	mu     sync.Mutex
	checks []*check
	joined chan struct{} // closed when those of the agent's start have ended
	last   string
}

// check is one, with what it found last.
type check struct {
	Check
	found   string
	running bool
	waiting []chan struct{} // closed when the next run has ended
	armed   bool            // it failed, and is repeated
	stuck   <-chan struct{}
}

// New makes a Runner; nothing is run before Begin.
func New(o Options) *Runner {
	if o.Again <= 0 {
		o.Again = defaultAgain
	}
	r := &Runner{o: o, joined: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for _, c := range o.Checks {
		r.checks = append(r.checks, &check{Check: c})
	}
	return r
}

// Begin runs the checks of the agent's start.
func (r *Runner) Begin() {
	r.jobs.Go(func() {
		r.wait(Join)
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.joined)
		r.tell(true)
	})
}

// Close ends what is under way, and waits for it, though not for what cannot be killed.
func (r *Runner) Close() {
	r.cancel()
	r.jobs.Wait()
}

// Show hands over what is known now. Nothing newer is told before it has returned.
func (r *Runner) Show(to func(*messages.MachineHealth)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to(r.health())
}

// Run runs the checks of an occasion and hands over what is known then. It waits for those of the agent's start too.
func (r *Runner) Run(when Occasion, to func(*messages.MachineHealth)) {
	select {
	case <-r.joined:
	case <-r.ctx.Done():
	}
	r.wait(when)
	r.Show(to)
}

// health returns the known health. The caller holds the lock.
func (r *Runner) health() *messages.MachineHealth {
	h := &messages.MachineHealth{}
	select {
	case <-r.joined:
	default:
		h.Pending = len(r.checks) > 0
	}
	for _, c := range r.checks {
		if h.Unwell == "" {
			h.Unwell = c.found
		}
		h.BeforeWork = h.BeforeWork || c.When&Prepare != 0
		h.AfterFailure = h.AfterFailure || c.When&Failure != 0
	}
	return h
}

// tell says what is known, if it has changed; the lock is held.
func (r *Runner) tell(anyway bool) {
	h := r.health()
	if h.Unwell != r.last || anyway {
		r.last = h.Unwell
		r.o.Tell(h)
	}
}

// wait runs the checks of some occasions side by side, and returns when each has ended.
func (r *Runner) wait(when Occasion) {
	var all []chan struct{}
	r.mu.Lock()
	for _, c := range r.checks {
		if c.When&when != 0 {
			all = append(all, r.ask(c))
		}
	}
	r.mu.Unlock()
	for _, ended := range all {
		select {
		case <-ended:
		case <-r.ctx.Done():
			return
		}
	}
}

// ask has a check run: all who ask while it runs share the next run, which sees what they have seen. The lock is held.
func (r *Runner) ask(c *check) chan struct{} {
	ended := make(chan struct{})
	c.waiting = append(c.waiting, ended)
	if !c.running {
		c.running = true
		r.jobs.Go(func() { r.run(c) })
	}
	return ended
}

// run runs a check as long as somebody waits for it.
func (r *Runner) run(c *check) {
	for {
		r.mu.Lock()
		waiting := c.waiting
		if c.waiting = nil; len(waiting) == 0 || r.ctx.Err() != nil {
			c.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		found := r.look(c)
		r.mu.Lock()
		if r.ctx.Err() == nil {
			c.found = found
			r.tell(false)
			r.repeat(c)
		}
		for _, ended := range waiting {
			close(ended)
		}
		r.mu.Unlock()
	}
}

// look looks once, and returns what is wrong in words.
func (r *Runner) look(c *check) string {
	if c.stuck != nil {
		select {
		case <-c.stuck:
			c.stuck = nil
		default:
			return c.Name + ": an earlier run of it hangs, and cannot be killed"
		}
	}
	gone, err := c.Look(r.ctx)
	c.stuck = gone
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s", c.Name, messages.AsText(err.Error()))
}

// repeat has a check that failed run again, until it passes; the lock is held.
func (r *Runner) repeat(c *check) {
	if c.found == "" || c.armed {
		return
	}
	c.armed = true
	r.jobs.Go(func() {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(r.o.Again):
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		c.armed = false
		r.ask(c)
	})
}
