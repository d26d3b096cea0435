package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file owns the tests of which scheduler may lead, and of the remaining rights of the last leader.

func TestLease(t *testing.T) {
	const lease = time.Hour // it ends when the test says so
	url := database(t)
	a, b := opened(t, Options{URL: url, Lease: lease}), opened(t, Options{URL: url, Lease: lease})
	if l, err := b.Leading(); err != nil || l != (store.Leadership{}) {
		t.Fatalf("no leader yet: %+v, %v", l, err)
	}
	first := mustLead(t, a, "a")
	if _, err := b.Lead("b"); !errors.Is(err, store.ErrLed) ||
		!strings.Contains(err.Error(), "another scheduler leads: a, for") {
		t.Fatalf("second leader: %v", err)
	}
	if l, err := b.Leading(); err != nil || l.Holder != "a" || l.Epoch != first || l.Left <= lease-time.Minute ||
		l.Left > lease {
		t.Fatalf("leading: %+v, %v", l, err)
	}
	second := mustLead(t, a, "a") // a restart
	if second != first+1 {
		t.Fatalf("epochs %d and %d", first, second)
	}
	if err := a.Renew(first); !errors.Is(err, store.ErrDeposed) {
		t.Fatalf("renew an older epoch: %v", err)
	}
	if err := a.Renew(second); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, url, "UPDATE synapse.lease SET until = clock_timestamp() - interval '1 ms'")
	if l, err := b.Leading(); err != nil || l.Left != 0 {
		t.Fatalf("leading after the lease: %+v, %v", l, err)
	}
	applied(t, a, second, three(second)...) // no other process leads, so it may still write
	third := mustLead(t, b, "b")
	if err := a.Renew(second); !errors.Is(err, store.ErrDeposed) {
		t.Fatalf("renew after another led: %v", err)
	}
	if _, err := a.Apply(second, nil); !errors.Is(err, store.ErrDeposed) {
		t.Fatalf("apply after another led: %v", err)
	}
	if _, err := a.Load(second); !errors.Is(err, store.ErrDeposed) {
		t.Fatalf("load after another led: %v", err)
	}
	if err := b.Resign(third); err != nil {
		t.Fatal(err)
	}
	if fourth := mustLead(t, a, "a"); fourth != third+1 {
		t.Fatalf("epochs %d and %d", third, fourth)
	}
}

// TestEpochTwice checks two leaders with the same epoch. An asynchronous replica may lose the last epoch in a failover
// and issue it again. The holder's name distinguishes the two.
func TestEpochTwice(t *testing.T) {
	url := database(t)
	a, b := opened(t, Options{URL: url}), opened(t, Options{URL: url})
	first := mustLead(t, a, "a")
	applied(t, a, first, three(first)...)
	server.Exec(t, url, "UPDATE synapse.leader SET epoch = epoch - 1; UPDATE synapse.lease SET epoch = epoch - 1")
	if second := mustLead(t, b, "b"); second != first {
		t.Fatalf("epoch %d, want %d once more", second, first)
	}
	_, applyErr := a.Apply(first, nil)
	_, loadErr := a.Load(first)
	_, pruneErr := a.Prune(first, 1, 1)
	for i, err := range []error{applyErr, loadErr, pruneErr, a.Renew(first), a.Resign(first)} {
		if !errors.Is(err, store.ErrDeposed) {
			t.Errorf("call %d of the earlier leader: %v", i, err)
		}
	}
	if _, err := b.Load(first); err != nil {
		t.Error(err)
	}
	if err := b.Renew(first); err != nil {
		t.Error(err)
	}
}

// TestFrozenLeaderIsFencedOff checks a leader that freezes during a transaction and holds the fence's lock. The server
// releases the lock, the successor leads, and the old leader writes nothing.
func TestFrozenLeaderIsFencedOff(t *testing.T) {
	url := database(t)
	a, b := opened(t, Options{URL: url}), opened(t, Options{URL: url})
	first := mustLead(t, a, "a")
	draft := store.NewDraft(three(first))
	ctx, cancel := a.bounded()
	defer cancel()
	var second uint64
	began := time.Now()
	err := a.led(ctx, first, func(batch *pgx.Batch) { look(batch, draft) }, func(batch *pgx.Batch) {
		second = mustLead(t, b, "b") // waits for the frozen transaction
		draft.Judge()
		put(batch, draft.Rows())
	})
	if err == nil {
		t.Fatal("the frozen leader wrote after it was deposed")
	}
	if took := time.Since(began); took < maxIdle/2 || took > pace.Of(2*maxIdle) {
		t.Fatalf("the successor led after %v", took)
	}
	presence(t, b, second, false)
	applied(t, b, second, three(second)...)
}

// TestRenewalDoesNotWait checks that a renewal does not wait for a transaction in progress.
func TestRenewalDoesNotWait(t *testing.T) {
	s := fresh(t)
	epoch := mustLead(t, s, "a")
	ctx, cancel := s.bounded()
	defer cancel()
	err := s.led(ctx, epoch, func(*pgx.Batch) {}, func(*pgx.Batch) {
		// A renewal that waits would do so until the server releases the lock after maxIdle, and then this transaction would
		// fail.
		if err := s.Renew(epoch); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestManyRaceToLead(t *testing.T) {
	url := database(t)
	const racers = 4
	won, lost := make(chan uint64, racers), make(chan error, racers)
	for i := range racers {
		s := opened(t, Options{URL: url, Lease: time.Hour})
		go func() {
			epoch, err := s.Lead(string(rune('a' + i)))
			if err != nil {
				lost <- err
				return
			}
			won <- epoch
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(time.Minute))
	defer cancel()
	for range racers - 1 {
		select {
		case err := <-lost:
			if !errors.Is(err, store.ErrLed) {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("several leaders, or no answer")
		}
	}
	if epoch := <-won; epoch != 1 {
		t.Fatalf("epoch %d", epoch)
	}
}
