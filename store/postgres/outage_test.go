package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/pgtest"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of a write during which the server or the network fails.

func submitted(epoch uint64, id string, write uint64) *messages.JobRecord {
	return &messages.JobRecord{
		Id: id, Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: write}, Arrival: write,
		Spec:  &messages.JobSpec{Name: "train", Image: "host", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}},
		Owner: &messages.Principal{Name: "alice"}, RequestId: "r" + id, State: messages.JobState_JOB_STATE_QUEUED,
	}
}

func committed(epoch uint64, job string, counter uint64) *messages.AttemptRecord {
	return &messages.AttemptRecord{
		Job: job, Token: &messages.Token{Epoch: epoch, Counter: counter}, Run: 1, CommittedUnixMs: 1,
		Places: []*messages.Place{{Node: "n0", MachineId: "m0", Grant: &messages.Grant{
			Amount: &messages.Resources{MilliGpu: 1000}, Gpus: []*messages.GpuShare{{GpuId: "gpu-a", Milli: 1000}},
		}}},
	}
}

// three returns a transaction that affects every table.
func three(epoch uint64) []actors.Change {
	return []actors.Change{
		{Job: submitted(epoch, "a", 1), Attempts: []*messages.AttemptRecord{committed(epoch, "a", 1)}},
		{Job: submitted(epoch, "b", 2)},
		{Node: &messages.NodeRecord{Id: "n0", Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: 3}}},
	}
}

func mustLead(t *testing.T, s *Store, holder string) uint64 {
	t.Helper()
	epoch, err := s.Lead(holder)
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

func applied(t *testing.T, s *Store, epoch uint64, changes ...actors.Change) {
	t.Helper()
	verdicts, err := s.Apply(epoch, changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if v != actors.Done {
			t.Fatalf("change %d is a conflict: %v", i, s.Broken())
		}
	}
}

// presence checks that the changes of three are stored completely or not at all.
func presence(t *testing.T, s *Store, epoch uint64, want bool) {
	t.Helper()
	l, err := s.Load(epoch)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, j := range l.Jobs {
		found += j.Id
	}
	for _, a := range l.Attempts {
		found += "/" + a.Job
	}
	for _, n := range l.Nodes {
		found += "/" + n.Id
	}
	if all := map[bool]string{true: "ab/a/n0"}[want]; found != all {
		t.Fatalf("stored are %q, want %q", found, all)
	}
}

func TestInDoubtIsAllOrNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		fail    func(p *proxy, giveUp func())
		written bool
	}{
		{"cut before COMMIT was sent", func(p *proxy, _ func()) { p.cut() }, false},
		{"cut before its answer", func(p *proxy, _ func()) { p.set(deaf) }, true},
		{"stuck before COMMIT was sent", func(p *proxy, giveUp func()) {
			p.set(stuck)
			time.AfterFunc(2*time.Second, giveUp) // earlier than the store's own timeout, which the other cases need
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := database(t)
			direct := opened(t, Options{URL: url})
			p, through := newProxy(t, url)
			s := opened(t, Options{URL: through})
			epoch := mustLead(t, s, "tester")
			direct.holder.Store(s.holder.Load()) // the same process, by another connection
			prepare(t, s, epoch)
			draft := store.NewDraft(three(epoch))
			ctx, cancel := s.bounded()
			defer cancel()
			err := s.led(ctx, epoch, func(batch *pgx.Batch) { look(batch, draft) }, func(batch *pgx.Batch) {
				draft.Judge()
				put(batch, draft.Rows())
				c.fail(p, cancel)
			})
			if err == nil || errors.Is(err, store.ErrDeposed) || errors.Is(judged(err), store.ErrDamaged) {
				t.Fatalf("apply: %v", err)
			}
			p.set(passing)
			p.cut()
			presence(t, direct, epoch, c.written)
			applied(t, s, epoch, three(epoch)...)
			presence(t, direct, epoch, true)
		})
	}
}

// prepare prepares every statement of a transaction, so that no preparation precedes COMMIT.
func prepare(t *testing.T, s *Store, epoch uint64) {
	t.Helper()
	applied(t, s, epoch, three(epoch)...)
	ctx, cancel := s.bounded()
	defer cancel()
	if _, err := s.writes.Exec(ctx, "TRUNCATE synapse.job, synapse.attempt, synapse.node"); err != nil {
		t.Fatal(err)
	}
}

func TestServerGoneAndBack(t *testing.T) {
	own := pgtest.Start(t)
	s := opened(t, Options{URL: own.Database(t)})
	epoch := mustLead(t, s, "tester")
	if err := own.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		began := time.Now()
		if _, err := s.Apply(epoch, three(epoch)); err == nil || errors.Is(err, store.ErrDeposed) ||
			errors.Is(err, store.ErrDamaged) {
			t.Fatalf("apply without a server: %v", err)
		}
		if _, _, err := s.Job("a"); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Fatalf("a read without a server: %v", err)
		}
		if took := time.Since(began); took > pace.Of(10*time.Second) {
			t.Fatalf("the calls took %v", took)
		}
	}
	if err := own.Run(); err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, three(epoch)...)
	presence(t, s, epoch, true)
}

// TestServerCrashLosesNothing checks that acknowledged writes survive a crash of the server, and that the leader
// continues with its epoch.
func TestServerCrashLosesNothing(t *testing.T) {
	own := pgtest.Start(t)
	s := opened(t, Options{URL: own.Database(t)})
	epoch := mustLead(t, s, "tester")
	var mu sync.Mutex
	var acknowledged []topology.JobID
	var enough = make(chan struct{})
	var once sync.Once
	var stop atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := uint64(1); !stop.Load(); n++ {
			id := fmt.Sprintf("j%06d", n)
			verdicts, err := s.Apply(epoch, []actors.Change{{Job: submitted(epoch, id, n)}})
			if err == nil && verdicts[0] == actors.Done {
				mu.Lock()
				acknowledged = append(acknowledged, topology.JobID(id))
				if len(acknowledged) > 100 {
					once.Do(func() { close(enough) })
				}
				mu.Unlock()
			}
		}
	})
	select {
	case <-enough:
	case <-time.After(pace.Of(60 * time.Second)):
		t.Error("a hundred writes took a minute")
	}
	killed := own.Kill()
	stop.Store(true)
	wait.Wait()
	if err := errors.Join(killed, own.Run()); err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, three(epoch)...)
	for _, id := range acknowledged {
		if _, _, err := s.Job(id); err != nil {
			t.Fatalf("job %s was acknowledged: %v", id, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(time.Minute))
	defer cancel()
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
}
