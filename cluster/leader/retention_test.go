package leader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yi-json/synapse/store"
)

// attic is a store of jobs that are over, by when they ended.
type attic struct {
	mu      sync.Mutex
	ended   []int64
	largest int
	calls   int
	fail    error
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

// What is old goes, in small steps; what is not stays until it is.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, a := new(rig), new(attic)
		for i := range 1000 {
			a.ended = append(a.ended, time.Now().Add(time.Duration(i-500)*time.Minute+30*time.Second).UnixMilli())
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		r := Retention{Store: a, Keep: time.Minute, Clock: bubble{time.Now()}, WallMs: func() int64 { return time.Now().UnixMilli() }, Log: log}
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
		<-done // another one leads, and forgets
		if a.largest > sweepBatch {
			t.Errorf("%d went at once", a.largest)
		}
	})
}

func TestRetentionEndsWithItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attic{fail: errors.New("never called")}
		ctx, end := context.WithCancel(t.Context())
		end()
		Retention{Store: a, Keep: time.Hour, Clock: bubble{time.Now()}, WallMs: func() int64 { return 0 }, Log: new(rig)}.Run(ctx, 1)
		if a.calls != 0 {
			t.Fatalf("it was called %d times", a.calls)
		}
	})
}
