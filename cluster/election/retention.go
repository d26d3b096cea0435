package election

import (
	"context"
	"errors"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file owns retention: the leader deletes jobs that ended long ago, and scripts that no job names. It works in
// parallel to the actors and sends them nothing, because they hold no finished job for that long.
//
// The end of a job is on disk as a time of day, because no other clock survives restarts of all schedulers. A leader
// whose clock is years ahead must not delete everything. Therefore its clock counts only up to a limit. The limit is
// the newest end in the store at the takeover, plus the time of its leadership by its steady clock, plus a part of the
// retention time. An idle cluster deletes later because of this. The limit does not help with ends that a leader with a
// wrong clock has written itself.

// Pruner is the part of a store that deletes records.
type Pruner interface {
	Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error)
	History(past store.Past) (store.Page, error)
	PruneScripts(epoch uint64, limit int) (int, error)
}

// Retention deletes records whose retention time has passed.
type Retention struct {
	Store  Pruner
	Keep   time.Duration // after a job's end; 0: forever
	Clock  Clock         // nil: the real one
	WallMs func() int64
	Log    actors.Log
}

// The first sweep comes a minute after the start, when the nodes have returned, and then one every hour. A sweep
// consists of many small transactions with pauses, because each delays the Journal.
const (
	firstSweep = time.Minute
	sweepEvery = time.Hour
	sweepBatch = 200
	sweepPause = 50 * time.Millisecond
	// scriptBatch limits the scripts that one sweep deletes.
	scriptBatch = 1_000
)

// aheadPart is the part of the retention time by which the wall clock may be ahead of all times in the store.
const aheadPart = 8

// found is the newest end in the store when this leader took over.
type found struct {
	newestUnixMs int64
	at           actors.Instant
}

// Run deletes records until ctx ends, or until another process leads.
func (r Retention) Run(ctx context.Context, epoch uint64) {
	if r.Clock == nil {
		r.Clock = realClock{}
	}
	// This query comes before the leader writes ends itself, because those agree with its clock, however wrong it is.
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
			// PruneScripts runs once per sweep. Two calls must be further apart than the two writes of a submit, and two sweeps
			// are.
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

// look finds the newest end in the store. Without any, nothing can be deleted too early.
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

// before returns the time of day before which ends are deleted.
func (r Retention) before(newest *found) int64 {
	led := r.Clock.Now().Since(newest.at)
	return min(r.WallMs(), newest.newestUnixMs+(led+r.Keep/aheadPart).Milliseconds()) - r.Keep.Milliseconds()
}

// sweep deletes all jobs that are old enough.
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

// pause waits, and reports whether to continue.
func (r Retention) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.Clock.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
