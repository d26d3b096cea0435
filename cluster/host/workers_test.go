package host

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestBurstsAreTakenInOrder checks that bursts are taken in the order in which they came, whatever their number. A
// queue that was once long becomes short again.
func TestBurstsAreTakenInOrder(t *testing.T) {
	w := newQueue()
	var got []int
	posted := 0
	post := func(n int) {
		for range n {
			i := posted
			w.Schedule(func() { got = append(got, i) })
			posted++
		}
	}
	take := func(n int) {
		for range n {
			w.take()()
		}
	}
	post(3 * roomy)
	take(2 * roomy)
	post(roomy) // moves the waiting bursts to the front
	if w.head != 0 || len(w.queue) != 2*roomy {
		t.Errorf("%d wait behind %d that are taken, want %d behind none", len(w.queue), w.head, 2*roomy)
	}
	take(2 * roomy)
	if cap(w.queue) > roomy {
		t.Errorf("an empty queue has room for %d", cap(w.queue))
	}
	post(5)
	take(5)
	if len(got) != posted {
		t.Fatalf("%d of %d ran", len(got), posted)
	}
	for i, n := range got {
		if i != n {
			t.Fatalf("burst %d ran as number %d", n, i)
		}
	}
}

// TestEveryBurstRuns checks that concurrent posts lose nothing, and that no worker sleeps while a burst waits.
func TestEveryBurstRuns(t *testing.T) {
	w := newWorkers()
	const posters, each = 8, 20_000
	var ran atomic.Int64
	var posting sync.WaitGroup
	for range posters {
		posting.Go(func() {
			for range each {
				w.Schedule(func() { ran.Add(1) })
			}
		})
	}
	posting.Wait()
	for limit := pace.Until(20 * time.Second); ran.Load() < posters*each; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d of %d ran", ran.Load(), posters*each)
		}
	}
}

// TestPosterDoesNotWait checks that a post returns even if no worker runs.
func TestPosterDoesNotWait(t *testing.T) {
	w := newQueue()
	for range 100_000 {
		w.Schedule(func() {})
	}
	if len(w.queue) != 100_000 {
		t.Fatalf("%d wait", len(w.queue))
	}
}
