package leader

import (
	"context"
	"errors"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file owns when the leader forgets jobs that were over long ago. It works
// beside the actors and tells them nothing: they hold no such job for longer
// than they show it.

// Pruner is the part of a store that forgets.
type Pruner interface {
	Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error)
}

// Retention is what is kept.
type Retention struct {
	Store  Pruner
	Keep   time.Duration // after a job's end
	Clock  Clock         // nil: the real one
	WallMs func() int64
	Log    actors.Log
}

// A sweep comes a minute after the start, when the machines are back, and then
// every hour. It takes many small transactions with pauses between them: each
// keeps the Journal waiting, and none may do so for long.
const (
	firstSweep = time.Minute
	sweepEvery = time.Hour
	sweepBatch = 200
	sweepPause = 50 * time.Millisecond
)

// Run forgets until ctx ends, or until another process leads.
func (r Retention) Run(ctx context.Context, epoch uint64) {
	if r.Clock == nil {
		r.Clock = realClock{}
	}
	for wait := firstSweep; r.pause(ctx, wait); wait = sweepEvery {
		gone, err := r.sweep(ctx, epoch)
		if gone > 0 {
			r.Log.Info("Forgot %d jobs that ended more than %s ago", gone, r.Keep)
		}
		switch {
		case errors.Is(err, store.ErrDeposed), errors.Is(err, store.ErrClosed):
			return
		case err != nil:
			r.Log.Info("Forgetting old jobs failed, and is tried again in %s: %v", sweepEvery, err)
		}
	}
}

// sweep forgets all that is old now.
func (r Retention) sweep(ctx context.Context, epoch uint64) (gone int, err error) {
	before := r.WallMs() - r.Keep.Milliseconds()
	for {
		n, err := r.Store.Prune(epoch, before, sweepBatch)
		gone += n
		if err != nil || n < sweepBatch || !r.pause(ctx, sweepPause) {
			return gone, err
		}
	}
}

// pause waits, and tells whether to go on.
func (r Retention) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.Clock.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
