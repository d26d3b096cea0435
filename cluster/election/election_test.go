package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/lease"
	"github.com/yi-json/synapse/store"
)

// This file owns the tests of leadership over time. They run with virtual time, so every time is exact and no test
// waits.

const term = 3 * time.Second

// bubble is the virtual clock of a test.
type bubble struct{ began time.Time }

func (b bubble) Now() actors.Instant                  { return actors.Instant(time.Since(b.began)) }
func (bubble) After(d time.Duration) <-chan time.Time { return time.After(d) }

// leaseRow is a simulated lease in the database, with possible failures of its queries.
type leaseRow struct {
	mu     sync.Mutex
	holder string
	epoch  uint64
	until  time.Time
	down   error         // of every call
	slow   time.Duration // of every call, before its effect
	deaf   time.Duration // of every answer, after the effect
}

var errAway = errors.New("the server is away")

func (l *leaseRow) call(do func() error) error {
	l.mu.Lock()
	slow, deaf := l.slow, l.deaf
	l.mu.Unlock()
	time.Sleep(slow)
	l.mu.Lock()
	err := l.down
	if err == nil {
		err = do()
	}
	l.mu.Unlock()
	time.Sleep(deaf)
	return err
}

func (l *leaseRow) Lead(holder string) (epoch uint64, err error) {
	err = l.call(func() error {
		if l.holder != holder && time.Now().Before(l.until) {
			return fmt.Errorf("store: lead: %w", store.ErrLed)
		}
		l.epoch++
		l.holder, l.until, epoch = holder, time.Now().Add(term), l.epoch
		return nil
	})
	return epoch, err
}

func (l *leaseRow) Renew(epoch uint64) error {
	return l.call(func() error {
		if epoch != l.epoch {
			return store.ErrDeposed
		}
		l.until = time.Now().Add(term)
		return nil
	})
}

func (l *leaseRow) Leading() (leads store.Leadership, err error) {
	err = l.call(func() error {
		leads = store.Leadership{Holder: l.holder, Epoch: l.epoch, Left: max(0, time.Until(l.until))}
		return nil
	})
	return leads, err
}

func (l *leaseRow) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// rig is one process.
type rig struct {
	actors.NoLog
	*Candidate
	mu    sync.Mutex
	lines []string
	told  []string
}

func (r *rig) Info(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *rig) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func candidate(l *leaseRow, name string) *rig {
	r := new(rig)
	r.Candidate = New(Options{Lease: l, Clock: bubble{time.Now()}, Options: lease.Options{
		Holder: lease.Holder{Address: name + ":9000", Process: "p-" + name}, Term: term, Log: r,
		Follow: func(address string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, address)
		},
	}})
	return r
}

func mustStand(t *testing.T, r *rig) *lease.Reign {
	t.Helper()
	reign, err := r.Stand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return reign
}

// TestStandbyTakesOver checks that a leader renews its lease while it lives. The standby waits, knows the leader's
// address, and takes over at its first check after the end of the lease.
func TestStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(leaseRow)
		a, b := candidate(l, "a"), candidate(l, "b")
		reign := mustStand(t, a)
		alive, die := context.WithCancel(t.Context())
		held := make(chan error)
		go func() { held <- a.Hold(alive, reign) }()
		won := make(chan *lease.Reign)
		go func() { won <- mustStand(t, b) }()
		time.Sleep(time.Hour)
		select {
		case <-won:
			t.Fatal("the lease of a leader that lives was taken")
		case err := <-held:
			t.Fatalf("a leader that renews stopped: %v", err)
		default:
		}
		b.mu.Lock()
		told := b.told
		b.mu.Unlock()
		if len(told) != 1 || told[0] != "a:9000" || b.said() != "Standing by: a:9000 leads (epoch 1)" {
			t.Fatalf("the standby knows %v and logged:\n%s", told, b.said())
		}
		die()
		died := time.Now()
		if err := <-held; err != nil {
			t.Fatalf("a requested end counts as a lost lease: %v", err)
		}
		next := <-won
		if took := time.Since(died); took < term/2 || took > term+lease.LooksEvery {
			t.Errorf("the next leader led %s after the end of the last one", took)
		}
		if next.Epoch != reign.Epoch+1 {
			t.Errorf("epochs %d and %d", reign.Epoch, next.Epoch)
		}
	})
}

// TestResignedLeaseIsTakenAtOnce checks that a released lease is taken with the next check.
func TestResignedLeaseIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(leaseRow)
		mustStand(t, candidate(l, "a"))
		won := make(chan *lease.Reign)
		go func() { won <- mustStand(t, candidate(l, "b")) }()
		time.Sleep(time.Second)
		l.set(func() { l.until = time.Now() })
		began := time.Now()
		<-won
		if took := time.Since(began); took > lease.LooksEvery {
			t.Errorf("it was taken after %s", took)
		}
	})
}

// TestLeaderStopsBeforeOthersMayLead checks that a leader stops before another process may lead, however the database
// fails.
func TestLeaderStopsBeforeOthersMayLead(t *testing.T) {
	for name, fail := range map[string]func(*leaseRow){
		"the server is away":     func(l *leaseRow) { l.down = errAway },
		"calls hang":             func(l *leaseRow) { l.slow = time.Hour },
		"answers are lost":       func(l *leaseRow) { l.deaf = time.Hour },
		"answers come too late":  func(l *leaseRow) { l.deaf = term },
		"calls arrive too late":  func(l *leaseRow) { l.slow = term },
		"half of it, both ways ": func(l *leaseRow) { l.slow, l.deaf = term/2, term/2 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(leaseRow)
				a := candidate(l, "a")
				reign := mustStand(t, a)
				held := make(chan error, 1)
				go func() { held <- a.Hold(t.Context(), reign) }()
				time.Sleep(10*time.Second + 100*time.Millisecond) // between two renewals
				l.set(func() { fail(l) })
				failed := time.Now()
				err := <-held
				if !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "not be renewed in time") {
					t.Fatalf("it ended with %v", err)
				}
				l.set(func() {
					if left := time.Until(l.until); left < term/lease.Safety {
						t.Errorf("the leader stopped %s before another one may lead", left)
					}
				})
				if lasted := time.Since(failed); lasted < term/2 {
					t.Errorf("it gave up after %s, before it had to", lasted)
				}
				time.Sleep(3 * time.Hour) // queries in progress have no receiver, and must end
			})
		})
	}
}

// TestShortOutageIsBridged checks that an outage of a third of the lease has no effect. The log gets one line at its
// start and one at its end.
func TestShortOutageIsBridged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(leaseRow)
		a := candidate(l, "a")
		reign := mustStand(t, a)
		held := make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		go func() { held <- a.Hold(ctx, reign) }()
		for range 5 {
			time.Sleep(10 * time.Second)
			l.set(func() { l.down = errAway })
			time.Sleep(term/3 + term/10)
			l.set(func() { l.down = nil })
		}
		time.Sleep(10 * time.Second)
		end()
		if err := <-held; err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSuffix(
			strings.Repeat("The lease was not renewed: the server is away\nThe database answers again\n", 5), "\n")
		if a.said() != want {
			t.Errorf("logged:\n%s", a.said())
		}
	})
}

// TestPausedLeaderStops checks that a paused leader learns from its own clock that its lease has ended.
func TestPausedLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(leaseRow)
		a, b := candidate(l, "a"), candidate(l, "b")
		reign := mustStand(t, a)
		time.Sleep(term) // it is paused right after it has taken the lease
		mustStand(t, b)
		if err := a.Hold(t.Context(), reign); !errors.Is(err, lease.ErrLost) {
			t.Fatalf("it ended with %v", err)
		}
	})
}

// TestDeposedLeaderStops checks that a refused renewal ends a leader at once.
func TestDeposedLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(leaseRow)
		a := candidate(l, "a")
		reign := mustStand(t, a)
		l.set(func() { l.epoch++ })
		began := time.Now()
		err := a.Hold(t.Context(), reign)
		if !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "another scheduler took over") {
			t.Fatalf("it ended with %v", err)
		}
		if took := time.Since(began); took > term/3 {
			t.Errorf("it took %s", took)
		}
	})
}

// TestStandingByThroughTrouble checks that a standby survives an outage without logging every check. A lease that took
// too long to get is not used.
func TestStandingByThroughTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseRow{down: errAway}
		a := candidate(l, "a")
		won := make(chan *lease.Reign)
		go func() { won <- mustStand(t, a) }()
		time.Sleep(10 * time.Minute)
		l.set(func() { l.down, l.deaf = nil, 2*term })
		time.Sleep(10 * term)
		l.set(func() { l.deaf = 0 })
		reign := <-won
		if time.Until(l.until) < term-lease.LooksEvery || reign.Epoch != l.epoch {
			t.Errorf("it leads on a lease that is not its own: %+v, and the row has epoch %d", reign, l.epoch)
		}
		if n := strings.Count(a.said(), "does not report the leader"); n != 1 {
			t.Errorf("the outage was logged %d times:\n%s", n, a.said())
		}
	})
}

func TestStandEndsWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(leaseRow)
		mustStand(t, candidate(l, "a"))
		l.set(func() { l.until = time.Now().Add(time.Hour) })
		ctx, end := context.WithCancel(t.Context())
		stood := make(chan error)
		go func() {
			_, err := candidate(l, "b").Stand(ctx)
			stood <- err
		}()
		time.Sleep(time.Minute)
		end()
		if err := <-stood; !errors.Is(err, context.Canceled) {
			t.Fatalf("it ended with %v", err)
		}
	})
}
