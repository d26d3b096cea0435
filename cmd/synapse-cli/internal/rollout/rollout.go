// Package rollout installs and updates node agents over the user's ssh. It compares the state of each node with the
// wanted state, makes the changes, and decides the order. It inspects all nodes before it changes one, and starts
// with a canary. After a node has become worse it starts no further one. It never reverts a change: it reports the
// changes, and an older package is another rollout.
package rollout

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// This file decides the order: which nodes are inspected, which are changed first, and when the rollout stops.

// Crew does the work of a rollout. Its methods are called for several nodes concurrently.
type Crew interface {
	// Look returns the state of a node.
	Look(ctx context.Context, h Host) (Found, error)
	// Apply does the work on a node, waits until the agent has joined the scheduler, and returns the agent's
	// version.
	Apply(ctx context.Context, h Host, w Work) (version string, err error)
	// State returns the state of a node in the cluster, by its name.
	State(ctx context.Context, name string) (State, error)
}

// State is the state of a node in the cluster.
type State struct {
	Known   bool // a node with this name exists
	Up      bool
	Closed  string // why the node is unschedulable; empty: schedulable
	GPUs    int    // without withdrawn GPUs
	Version string // version of the agent
}

// fit reports whether a node is as good as before. A node that was unschedulable for a reason may still be, for
// this reason.
func (s State) fit(before State) bool {
	return s.Up && (s.Closed == "" || s.Closed == before.Closed) && s.GPUs >= before.GPUs
}

// words returns a text about the state.
func (s State) words() string {
	switch {
	case !s.Known:
		return "unknown to the cluster"
	case !s.Up && s.Closed == "":
		return "not up"
	case s.Closed != "":
		return s.Closed
	}
	return fmt.Sprintf("up, %d GPUs, agent %s", s.GPUs, s.Version)
}

// End is the result for a node.
type End int

// The results, from good to bad.
const (
	Unchanged End = iota // nothing to change
	Done
	NoBetter // it was unfit before, and still is
	Refused  // its state does not permit the change; unchanged
	Worse
	NotBegun
)

var endWords = [...]string{"unchanged", "deployed", "no better", "refused", "worse", "not started"}

func (e End) String() string { return endWords[e] }

// Outcome is the result for one node.
type Outcome struct {
	Host Host
	End  End
	Why  string
}

// Rollout is one rollout.
type Rollout struct {
	Hosts    []Host
	Plan     Plan
	Crew     Crew
	Canaries int
	AtOnce   int
	Within   time.Duration // time for a node to become fit again
	Poll     time.Duration
	Dry      bool // only report the work
	// Tell receives a text about each event of a node.
	Tell func(h Host, text string)
}

// errand is a node with its work.
type errand struct {
	at   int // index in Hosts
	work Work
}

// Run works through the nodes. When begin ends, no further node is started, and the running ones are completed.
// When ctx ends, the running ones are abandoned.
func (r *Rollout) Run(ctx, begin context.Context) []Outcome {
	all := make([]Outcome, len(r.Hosts))
	for i, h := range r.Hosts {
		all[i] = Outcome{Host: h, End: NotBegun}
	}
	errands := r.survey(ctx, begin, all)
	begin, stop := context.WithCancel(begin)
	defer stop()
	do := func(t errand) {
		all[t.at] = r.deploy(ctx, stop, r.Hosts[t.at], t.work)
	}
	canaries := min(r.Canaries, len(errands))
	for _, t := range errands[:canaries] {
		if begin.Err() == nil {
			do(t)
		}
	}
	r.each(errands[canaries:], begin, do)
	return all
}

// each calls do for each errand, several at once, until begin ends.
func (r *Rollout) each(errands []errand, begin context.Context, do func(errand)) {
	var running sync.WaitGroup
	turn := make(chan struct{}, r.AtOnce)
	for _, t := range errands {
		turn <- struct{}{}
		if begin.Err() != nil {
			break
		}
		running.Go(func() {
			do(t)
			<-turn
		})
	}
	running.Wait()
}

// survey inspects all nodes, and returns those with work, in order. It sets the outcome of all others.
func (r *Rollout) survey(ctx, begin context.Context, all []Outcome) (errands []errand) {
	every := make([]errand, len(r.Hosts))
	for i := range every {
		every[i].at = i
	}
	r.each(every, begin, func(t errand) {
		h, out := r.Hosts[t.at], &all[t.at]
		found, err := r.Crew.Look(ctx, h)
		if err == nil {
			every[t.at].work, err = r.Plan.For(h, found)
		}
		switch work := every[t.at].work; {
		case err != nil:
			out.End, out.Why = Refused, err.Error()
			r.Tell(h, "skipped: "+out.Why)
		case work.none() && !r.Dry:
			*out = r.standing(ctx, h)
		case work.none():
			out.End, out.Why = Unchanged, work.String()
		case r.Dry:
			out.Why = work.String()
		}
	})
	for _, t := range every {
		if all[t.at].End == NotBegun && !r.Dry && begin.Err() == nil {
			errands = append(errands, t)
		}
	}
	return errands
}

// standing returns the outcome of a node without work.
func (r *Rollout) standing(ctx context.Context, h Host) Outcome {
	s, err := r.Crew.State(ctx, h.Name)
	if err != nil || !s.fit(s) {
		why := s.words()
		if err != nil {
			why = err.Error()
		}
		r.Tell(h, "up to date, but: "+why)
		return Outcome{h, NoBetter, why}
	}
	return Outcome{h, Unchanged, s.words()}
}

// deploy does the work on one node, and waits until the cluster reports that it is fit. If no further node may be
// started, it calls stop before it reports the reason.
func (r *Rollout) deploy(ctx context.Context, stop func(), h Host, w Work) Outcome {
	before, err := r.Crew.State(ctx, h.Name)
	if err != nil { // without the cluster, a damaged node would not be noticed
		stop()
		return Outcome{h, NotBegun, err.Error()}
	}
	r.Tell(h, w.String())
	version, err := r.Crew.Apply(ctx, h, w)
	if err != nil {
		out := before.since(h, err.Error(), stop)
		r.Tell(h, "failed: "+err.Error())
		return out
	}
	began := time.Now()
	for {
		s, err := r.Crew.State(ctx, h.Name)
		if err == nil && s.Version == version && s.fit(before) {
			r.Tell(h, s.words())
			return Outcome{h, Done, s.words()}
		}
		if ctx.Err() != nil || time.Since(began) > r.Within {
			return r.late(h, stop, before, s, time.Since(began), err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.Poll):
		}
	}
}

// late returns the outcome of a node that did not become fit in time.
func (r *Rollout) late(h Host, stop func(), before, now State, after time.Duration, err error) Outcome {
	why := now.words()
	switch {
	case err != nil:
		why = err.Error()
	case now.Up && now.GPUs < before.GPUs:
		why = fmt.Sprintf("node had %d GPUs and has %d", before.GPUs, now.GPUs)
	}
	out := before.since(h, why, stop)
	r.Tell(h, fmt.Sprintf("%s after %s: %s", out.End, after.Round(time.Second), why))
	return out
}

// since returns the outcome of a node that is unfit now and had state s before. If it was already unfit, it is not
// worse, and the rollout continues.
func (s State) since(h Host, why string, stop func()) Outcome {
	if s.Known && !s.fit(s) {
		return Outcome{h, NoBetter, why}
	}
	stop()
	return Outcome{h, Worse, why}
}
