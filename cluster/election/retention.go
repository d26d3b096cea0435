package election

import (
	"context"
	"errors"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file owns retention: when the leader forgets jobs that ended long ago, and scripts that no job names. It works
// beside the actors and tells them nothing: they hold no such job for longer than they show it.
//
// The end of a job is on disk as a time of day, because nothing else counts across restarts of all schedulers. So that
// a leader whose clock is years ahead does not forget everything, its clock is believed only up to the newest end that
// it found in the store, plus the time for which it has led by its steady clock, plus a part of what is kept. An idle
// cluster forgets later because of this. It does not help with ends that a leader with such a clock has written itself:
// they are as wrong as its clock.

// Pruner is the part of a store that forgets.
type Pruner interface {
	Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error)
	History(past store.Past) (store.Page, error)
	PruneScripts(epoch uint64, limit int) (int, error)
}

// Retention deletes the records that need not be kept any more.
type Retention struct {
	Store  Pruner
	Keep   time.Duration // after a job's end; 0: for ever
	Clock  Clock         // nil: the real one
	WallMs func() int64
	Log    actors.Log
}

// A sweep comes a minute after the start, when the machines are back, and then every hour. It is many small
// transactions with pauses between them: each keeps the Journal waiting, and none may do so for long.
const (
	firstSweep = time.Minute
	sweepEvery = time.Hour
	sweepBatch = 200
	sweepPause = 50 * time.Millisecond
	// scriptBatch bounds the scripts that one sweep forgets.
	scriptBatch = 1_000
)

// aheadPart is the part of what is kept by which the wall clock may be ahead of all that the store knows.
const aheadPart = 8

// found is the newest end in the store when this leader took over.
type found struct {
	newestUnixMs int64
	at           actors.Instant
}

// Run forgets until ctx ends, or until another process leads.
func (r Retention) Run(ctx context.Context, epoch uint64) {
	if r.Clock == nil {
		r.Clock = realClock{}
	}
	// This comes before the leader writes ends of its own: they would agree with its clock, however wrong that is.
	newest, err := r.look()
	for wait := firstSweep; r.pause(ctx, wait); wait = sweepEvery {
		if newest == nil {
			newest, err = r.look()
		}
		gone := 0
		if newest != nil {
			gone, err = r.sweep(ctx, epoch, newest)
		}
		if err == nil {
			// Once: two calls must be further apart than a submit's two writes, and two sweeps are.
			_, err = r.Store.PruneScripts(epoch, scriptBatch)
		}
		if gone > 0 {
			r.Log.Info("Deleted %d jobs that ended more than %s ago", gone, r.Keep)
		}
		switch {
		case errors.Is(err, store.ErrDeposed), errors.Is(err, store.ErrClosed):
			return
		case err != nil:
			r.Log.Info("Deleting old jobs failed, next try in %s: %v", sweepEvery, err)
		}
	}
}

// look finds the newest end. Where there is none, nothing can be forgotten too early.
func (r Retention) look() (*found, error) {
	if r.Keep <= 0 {
		return nil, nil
	}
	page, err := r.Store.History(store.Past{Look: 1})
	if err != nil {
		return nil, err
	}
	newest := &found{r.WallMs(), r.Clock.Now()}
	for _, past := range page.Jobs {
		newest.newestUnixMs = past.Job.FinishedUnixMs
		if ago := time.Duration(r.WallMs()-newest.newestUnixMs) * time.Millisecond; ago > r.Keep/aheadPart {
			r.Log.Info("The newest finished job ended %s ago by the clock of this host. In case the "+
				"clock is wrong, jobs that ended less than %s before it are not deleted "+
				"yet", ago.Round(time.Second), r.Keep-r.Keep/aheadPart)
		}
	}
	return newest, nil
}

// before is the time of day before which ends are forgotten.
func (r Retention) before(newest *found) int64 {
	led := r.Clock.Now().Since(newest.at)
	return min(r.WallMs(), newest.newestUnixMs+(led+r.Keep/aheadPart).Milliseconds()) - r.Keep.Milliseconds()
}

// sweep forgets all that is old now.
func (r Retention) sweep(ctx context.Context, epoch uint64, newest *found) (gone int, err error) {
	before := r.before(newest)
	for {
		n, err := r.Store.Prune(epoch, before, sweepBatch)
		gone += n
		if err != nil || n < sweepBatch || !r.pause(ctx, sweepPause) {
			return gone, err
		}
	}
}

// pause waits, and reports whether to go on.
func (r Retention) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.Clock.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
