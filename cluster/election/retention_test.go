package election

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// attic is a store of finished jobs, by the time of their ends.
type attic struct {
	mu      sync.Mutex
	ended   []int64
	largest int
	calls   int
	scripts int // number of calls of PruneScripts
	fail    error
}

func (a *attic) PruneScripts(uint64, int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scripts++
	return scriptBatch, a.fail
}

func (a *attic) Prune(_ uint64, before int64, limit int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if a.fail != nil {
		return 0, a.fail
	}
	gone := 0
	for gone < limit && len(a.ended) > 0 && a.ended[0] < before {
		a.ended, gone = a.ended[1:], gone+1
	}
	a.largest = max(a.largest, gone)
	return gone, nil
}

func (a *attic) History(past store.Past) (store.Page, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil || len(a.ended) == 0 {
		return store.Page{}, a.fail
	}
	newest := &messages.JobRecord{FinishedUnixMs: a.ended[len(a.ended)-1]}
	return store.Page{Jobs: []store.PastJob{{Job: newest}}}, nil
}

func (a *attic) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ended)
}

func (a *attic) failing(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

// TestRetention checks that old jobs are deleted in small steps. The others stay until they are old.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, a := new(rig), new(attic)
		for i := range 1000 {
			a.ended = append(a.ended, time.Now().Add(time.Duration(i-500)*time.Minute+30*time.Second).UnixMilli())
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		r := Retention{Store: a, Keep: time.Minute, Clock: bubble{time.Now()}, WallMs: func() int64 {
			return time.Now().UnixMilli()
		}, Log: log}
		done := make(chan struct{})
		go func() { r.Run(ctx, 1); close(done) }()
		time.Sleep(firstSweep + time.Minute)
		if a.left() != 500 {
			t.Fatalf("%d are left", a.left())
		}
		time.Sleep(sweepEvery)
		if a.left() != 440 {
			t.Fatalf("an hour later %d are left", a.left())
		}
		a.failing(errAway)
		time.Sleep(2 * sweepEvery)
		a.failing(nil)
		time.Sleep(sweepEvery)
		if a.left() != 260 {
			t.Fatalf("after an outage %d are left", a.left())
		}
		a.failing(store.ErrDeposed)
		time.Sleep(2 * sweepEvery)
		<-done // another process leads, and deletes
		if a.largest > sweepBatch {
			t.Errorf("%d went at once", a.largest)
		}
	})
}

// TestRetentionUnderAWrongClock checks a leader whose clock is ten years ahead. It deletes jobs too early by at most an
// eighth of the retention time. The same holds if the clock jumps later, or if the leader could not query the newest
// end.
func TestRetentionUnderAWrongClock(t *testing.T) {
	for name, wrong := range map[string]struct {
		jumps bool
		fail  error
	}{"from the start": {}, "later": {jumps: true}, "while the store is away": {fail: errAway}} { //order: each by itself
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const keep = 80 * time.Hour
				log, a := new(rig), &attic{fail: wrong.fail}
				for i := range 100 { // one for each of the last hundred hours
					a.ended = append(a.ended, time.Now().Add(time.Duration(i-99)*time.Hour).UnixMilli())
				}
				ahead := new(atomic.Int64)
				if !wrong.jumps {
					ahead.Store(10 * 365 * 24 * time.Hour.Milliseconds())
				}
				ctx, end := context.WithCancel(t.Context())
				defer end()
				wall := func() int64 { return time.Now().UnixMilli() + ahead.Load() }
				r := Retention{Store: a, Keep: keep, Clock: bubble{time.Now()}, WallMs: wall, Log: log}
				go r.Run(ctx, 1)
				time.Sleep(firstSweep + time.Minute)
				a.failing(nil)
				ahead.Store(10 * 365 * 24 * time.Hour.Milliseconds())
				time.Sleep(sweepEvery)
				if left := a.left(); left < 69 || left > 71 {
					t.Errorf("%d are left: 80 are to be kept, and a wrong clock may take an eighth of them", left)
				}
				time.Sleep(10 * sweepEvery)
				if left := a.left(); left < 59 || left > 61 {
					t.Errorf("ten hours later %d are left", left)
				}
			})
		})
	}
}

// TestScriptsArePrunedOnceASweep checks that each sweep prunes scripts once, whatever their number. The next call may
// delete a script that one call found without a job, and a submit must not fall between the two. With infinite
// retention, jobs keep their scripts, and scripts without a job are still deleted.
func TestScriptsArePrunedOnceASweep(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			a := &attic{ended: []int64{1, 2, 3}}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			wall := func() int64 { return time.Now().UnixMilli() }
			go Retention{Store: a, Keep: keep, Clock: bubble{time.Now()}, WallMs: wall, Log: new(rig)}.Run(ctx, 1)
			time.Sleep(firstSweep + 3*sweepEvery + time.Minute)
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.scripts != 4 || keep == 0 && a.calls != 0 {
				t.Errorf("kept for %s: scripts were pruned %d times in four sweeps, jobs %d times", keep, a.scripts,
					a.calls)
			}
		})
	}
}

func TestRetentionEndsWithItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attic{fail: errors.New("never called")}
		ctx, end := context.WithCancel(t.Context())
		end()
		Retention{Store: a, Keep: time.Hour, Clock: bubble{time.Now()}, WallMs: func() int64 { return 0 }, Log: new(rig)}.Run(
			ctx, 1)
		if a.calls != 0 {
			t.Fatalf("it was called %d times", a.calls)
		}
	})
}
