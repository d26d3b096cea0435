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

// This file owns what is done to the cluster.

// tally counts what was done, by name.
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

// faults breaks one thing after the other until ctx ends, several at a time, and
// then mends them all.
func (w *world) faults(ctx context.Context) {
	var running sync.WaitGroup
	var busy sync.Map // a process, or the database, has one fault at a time
	for ctx.Err() == nil {
		wait(ctx, w.between(300*time.Millisecond, 2700*time.Millisecond))
		target, name, fault := w.pick()
		if _, taken := busy.LoadOrStore(target, true); taken || ctx.Err() != nil {
			continue
		}
		running.Go(func() {
			defer busy.Delete(target)
			if fault(ctx) {
				w.tally.add(name)
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

// pick draws a fault and what it falls on.
func (w *world) pick() (target any, name string, fault func(context.Context) bool) {
	head, node := w.heads[w.draw(len(w.heads))], w.nodes[w.draw(len(w.nodes))]
	switch w.draw(8) {
	case 0, 1:
		down := w.between(0, 3*time.Second)
		return head, "schedulers killed", func(context.Context) bool { return head.kill(down) }
	case 2:
		return head, "schedulers frozen", w.freeze(head, w.between(500*time.Millisecond, 6*time.Second))
	case 3, 4:
		down := w.between(0, 1500*time.Millisecond)
		if w.draw(6) == 0 {
			down = 12 * time.Second // long enough to be declared dead
		}
		return node, "agents killed", func(ctx context.Context) bool {
			killed := node.kill(down)
			wait(ctx, down)
			return killed
		}
	case 5, 6:
		down := w.between(500*time.Millisecond, 4*time.Second)
		if w.draw(6) == 0 {
			down = 13 * time.Second
		}
		return node, "agents frozen", w.freeze(node, down)
	}
	crash := w.draw(2) == 0
	down := w.between(0, 2*time.Second)
	if w.draw(4) == 0 {
		down = 5 * time.Second // longer than a lease
	}
	return w.database, "database restarts", func(ctx context.Context) bool { return w.restartDatabase(ctx, crash, down) }
}

func (w *world) freeze(s *service, down time.Duration) func(context.Context) bool {
	return func(ctx context.Context) bool {
		frozen := s.signal(syscall.SIGSTOP)
		wait(ctx, down)
		s.signal(syscall.SIGCONT)
		return frozen
	}
}

func (w *world) restartDatabase(ctx context.Context, crash bool, down time.Duration) bool {
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
