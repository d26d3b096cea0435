// Package health checks the node: when its agent starts, before an allocation is prepared, and after a task has failed.
// It reports the result to the Node, which decides the consequences. A check that hangs delays others at most until its
// timeout. While it cannot be killed, the same check is not started again.
package health

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// Occasion is an event that triggers checks. Occasions can be combined.
type Occasion uint8

// These are the occasions.
const (
	Join    Occasion = 1 << iota // the agent has started
	Prepare                      // an allocation is about to be prepared
	Failure                      // a task has failed
	Aside                        // a prolog or epilog has failed
)

// Check is one health check. Look returns an error if the node is unhealthy. If a process was abandoned and may still
// run, gone is its end.
type Check struct {
	Name string
	When Occasion
	Look func(ctx context.Context) (gone <-chan struct{}, err error)
}

// Options holds the settings of a Runner.
type Options struct {
	Checks []Check
	// Again is the time until a failed check is repeated; 0: 30 seconds.
	Again time.Duration
	// Tell is called whenever the known health has changed, one call at a time.
	Tell func(*messages.MachineHealth)
}

const defaultAgain = 30 * time.Second

// Runner runs the checks of a node.
type Runner struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	mu     sync.Mutex
	checks []*check
	joined chan struct{} // closed when the checks of the agent's start have ended
	last   string
}

// check is one check with its latest result.
type check struct {
	Check
	found   string
	running bool
	waiting []chan struct{} // closed when the next run has ended
	armed   bool            // a repetition is scheduled because it failed
	stuck   <-chan struct{}
}

// New makes a Runner. It runs nothing before Begin.
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

// Close ends running checks and waits for them, except for processes that cannot be killed.
func (r *Runner) Close() {
	r.cancel()
	r.jobs.Wait()
}

// Show passes on the known health. No newer report is sent before it returns.
func (r *Runner) Show(to func(*messages.MachineHealth)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to(r.health())
}

// Run runs the checks of an occasion and then passes on the known health. It first waits for the checks of the agent's
// start.
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

// tell reports the known health if it has changed. The caller holds the lock.
func (r *Runner) tell(anyway bool) {
	h := r.health()
	if h.Unwell != r.last || anyway {
		r.last = h.Unwell
		r.o.Tell(h)
	}
}

// wait runs the checks of some occasions in parallel, and returns when all have ended.
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

// ask requests a run of a check. All callers during a run share the next run, because only that run includes their
// events. The caller holds the lock.
func (r *Runner) ask(c *check) chan struct{} {
	ended := make(chan struct{})
	c.waiting = append(c.waiting, ended)
	if !c.running {
		c.running = true
		r.jobs.Go(func() { r.run(c) })
	}
	return ended
}

// run runs a check while a caller waits for it.
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

// look runs a check once and returns the problem as text.
func (r *Runner) look(c *check) string {
	if c.stuck != nil {
		select {
		case <-c.stuck:
			c.stuck = nil
		default:
			return c.Name + ": an earlier run hangs and cannot be killed"
		}
	}
	gone, err := c.Look(r.ctx)
	c.stuck = gone
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s", c.Name, messages.AsText(err.Error()))
}

// repeat schedules a failed check until it passes. The caller holds the lock.
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
