// Package rollout brings Synapse's agent to machines over the user's own ssh: what is there and what it should become,
// how that is done, and in which order. It looks at all machines before it changes one, begins with a canary, and
// begins no further machine once one is worse than it was. It never takes back what it did: what it did is told, and an
// older package is another rollout.
package rollout

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// This file owns the order: who is looked at, who goes first, and when nobody else does.

// Crew does what a rollout decides. Its methods are called for several machines at a time.
type Crew interface {
	// Look says what is on a machine.
	Look(ctx context.Context, h Host) (Found, error)
	// Apply does the work on a machine, waits until the scheduler has welcomed the agent that runs then, and answers
	// its version.
	Apply(ctx context.Context, h Host, w Work) (version string, err error)
	// State is how the cluster sees a machine, by its name.
	State(ctx context.Context, name string) (State, error)
}

// State is a machine as the cluster sees it.
type State struct {
	Known   bool // there is one of that name
	Up      bool
	Closed  string // why nothing new goes there; empty: it is open
	GPUs    int    // without those that are withdrawn
	Version string // of its agent
}

// fit reports whether a machine does all that it did. One that was closed for a reason may stay closed for it.
func (s State) fit(before State) bool {
	return s.Up && (s.Closed == "" || s.Closed == before.Closed) && s.GPUs >= before.GPUs
}

// words say what is seen.
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

// End is how a machine came out.
type End int

// The ends, from well to unwell.
const (
	Unchanged End = iota // it was as it should be
	Done
	NoBetter // it was unfit before, and is now
	Refused  // what is there does not allow it; nothing was changed
	Worse
	NotBegun
)

var endWords = [...]string{"unchanged", "deployed", "no better", "refused", "worse", "not started"}

func (e End) String() string { return endWords[e] }

// Outcome is how one machine came out.
type Outcome struct {
	Host Host
	End  End
	Why  string
}

// Rollout is one run.
type Rollout struct {
	Hosts    []Host
	Plan     Plan
	Crew     Crew
	Canaries int
	AtOnce   int
	Within   time.Duration // for a machine to be fit again
	Poll     time.Duration
	Dry      bool // only say what would be done
	// Tell is told what happens to a machine.
	Tell func(h Host, text string)
}

// errand is a machine with what is to be done there.
type errand struct {
	at   int // among the hosts
	work Work
}

// Run goes through the machines. When begin ends no further machine is begun, and those that are under way come to
// their end; when ctx does they are left as they are.
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

// each does something for each, some at a time, until begin ends.
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

// survey looks at all machines and answers those that want work, in order. The others have their outcome.
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

// standing is the outcome of a machine that is as it should be.
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

// deploy does the work on one machine, and waits until the cluster sees it fit. It calls stop where no further machine
// is to be begun, before anybody is told why.
func (r *Rollout) deploy(ctx context.Context, stop func(), h Host, w Work) Outcome {
	before, err := r.Crew.State(ctx, h.Name)
	if err != nil { // without the cluster nothing would tell that the machine is worse
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

// late is the outcome of a machine that is not fit in time.
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

// since is the outcome of a machine that was so before, and is unfit now. One that was unfit then is no worse, and
// stops nobody.
func (s State) since(h Host, why string, stop func()) Outcome {
	if s.Known && !s.fit(s) {
		return Outcome{h, NoBetter, why}
	}
	stop()
	return Outcome{h, Worse, why}
}
