package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This file injects the faults.

// tally counts events by name.
type tally struct {
	mu     *sync.Mutex
	counts map[string]int
}

func newTally() tally { return tally{new(sync.Mutex), map[string]int{}} }

func (t tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
}

func (t tally) of(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[name]
}

func (t tally) total() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.counts { //order: only summed
		n += c
	}
	return n
}

func (t tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", t.counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// carryOut executes the plan, each fault at its time, and returns when all are repaired. After ctx has ended it injects
// no more faults.
func (w *world) carryOut(ctx context.Context, plan []fault) {
	began := time.Now()
	var running sync.WaitGroup
	for _, s := range plan {
		wait(ctx, s.at-time.Since(began))
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			if w.harm(ctx, s) {
				w.tally.add(s.name)
			}
		})
	}
	running.Wait()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// harm injects one fault and repairs it. It reports whether the fault happened.
func (w *world) harm(ctx context.Context, s fault) bool {
	switch s.name {
	case schedulerKilled:
		return w.heads[s.target].kill(ctx, s.down)
	case schedulerFrozen:
		return w.freeze(ctx, w.heads[s.target], s.down)
	case agentKilled:
		return w.nodes[s.target].kill(ctx, s.down)
	case agentFrozen:
		return w.freeze(ctx, w.nodes[s.target], s.down)
	case partition:
		return w.part(ctx, s)
	}
	return w.restartDatabase(ctx, s.crash, s.down)
}

// freeze sends SIGSTOP and, after a while, SIGCONT.
func (w *world) freeze(ctx context.Context, s *service, down time.Duration) bool {
	frozen := s.signal(ctx, syscall.SIGSTOP)
	wait(ctx, down)
	// If the process was restarted meanwhile, this does nothing.
	s.signal(context.WithoutCancel(ctx), syscall.SIGCONT)
	return frozen
}

// part cuts nodes off, all at once.
func (w *world) part(ctx context.Context, s fault) bool {
	done := true
	for i := range 1 + s.more {
		if err := w.networks[(s.target+i)%machines].Cut(s.oneWay); err != nil {
			w.t.Errorf("cutting: %v", err)
			done = false
		}
	}
	wait(ctx, s.down)
	for i := range 1 + s.more {
		if err := w.networks[(s.target+i)%machines].Mend(s.oneWay); err != nil {
			w.t.Errorf("mending: %v", err)
		}
	}
	return done
}

// restartDatabase ends the database and starts it again. It may take longer to return than the plan expects. Then the
// next restart waits.
func (w *world) restartDatabase(ctx context.Context, crash bool, down time.Duration) bool {
	w.restarting.Lock()
	defer w.restarting.Unlock()
	end := w.database.Stop
	if crash {
		end = w.database.Kill
	}
	if err := end(); err != nil {
		w.t.Errorf("stopping the database: %v", err)
	}
	wait(ctx, down)
	if err := w.database.Run(); err != nil {
		w.t.Errorf("starting the database: %v", err)
	}
	return true
}
