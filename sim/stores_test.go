package sim

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/test/pgtest"
	"github.com/yi-json/synapse/topology"
)

// This file replays worlds against the databases. Each write that a world's store in memory accepted is given to a
// database, which must give the same answer and have the same content afterwards. So the results of the seeds with the
// memory store also hold for the databases.

// TestSQLiteReplaysSeeds and TestPostgresReplaysSeeds replay drawn worlds.
func TestSQLiteReplaysSeeds(t *testing.T) {
	replaySeeds(t, func(t *testing.T) store.Store {
		s, err := sqlite.Open(filepath.Join(t.TempDir(), "synapse.db"))
		return opened(t, s, err)
	})
}

func TestPostgresReplaysSeeds(t *testing.T) {
	server := pgtest.Start(t)
	replaySeeds(t, func(t *testing.T) store.Store {
		s, err := postgres.Open(postgres.Options{URL: server.Database(t), Lease: time.Hour})
		return opened(t, s, err)
	})
}

func opened[S store.Store](t *testing.T, s S, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// replayed is the number of replayed worlds.
const replayed = 4

// replaySeeds replays the first worlds with faults of the store but without restores, because the log of calls is
// incomplete after a restore.
func replaySeeds(t *testing.T, open func(*testing.T) store.Store) {
	changes, conflicts := 0, 0
	for seed, done := uint64(1), 0; done < replayed; seed++ {
		o := Options{Seed: seed, World: "small"}
		drawn, err := draw(o, newSource(seed).fork("draw"))
		if err != nil {
			t.Fatal(err)
		}
		has := func(site string) bool { return slices.Contains(drawn.Faults, site) }
		if drawn.File || has("store-restored") || has("store-tail") || !has("store-error") {
			continue
		}
		done++
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := &replay{T: t, tried: open(t)}
			o.Calls = r.call
			w, err := NewWorld(o)
			if err != nil {
				t.Fatal(err)
			}
			r.kept = w.store.kept
			w.share()
			w.arrive()
			w.arriveArrays()
			w.RunFor(w.draw.Load)
			r.compare()
			changes, conflicts = changes+r.changes, conflicts+r.conflicts
		})
	}
	if !t.Failed() && (changes < 400 || conflicts == 0) {
		t.Errorf("%d changes and %d conflicts are too few for a test", changes, conflicts)
	}
}

// replay is one world's log against one database.
type replay struct {
	*testing.T
	kept               *store.Memory
	tried              store.Store
	epoch              uint64
	changes, conflicts int
}

func (r *replay) call(c Call) {
	if c.Changes == nil {
		epoch, err := r.tried.Lead("replay")
		if err != nil || epoch != c.Epoch {
			r.Fatalf("the database assigns epoch %d (%v), but memory %d", epoch, err, c.Epoch)
		}
		if r.epoch = epoch; r.kept != nil {
			r.compare()
		}
		return
	}
	got, err := r.tried.Apply(c.Epoch, c.Changes)
	if err != nil || !slices.Equal(got, c.Verdicts) {
		r.Fatalf("the database answers %v (%v), but memory answers %v to %v", got, err, c.Verdicts, c.Changes)
	}
	r.changes += len(c.Changes)
	for _, v := range c.Verdicts {
		if v == actors.Conflict {
			r.conflicts++
		}
	}
}

// compare reads both stores with the calls of leaders and clients.
func (r *replay) compare() {
	r.Helper()
	got, err := r.tried.Load(r.epoch)
	want, wrong := r.kept.Load(r.epoch)
	if err != nil || wrong != nil {
		r.Fatalf("load: %v and %v", err, wrong)
	}
	if got.Arrival != want.Arrival || len(got.Unlearned) != len(want.Unlearned) {
		r.Fatalf("arrival %d and %d, to learn from %d and %d", got.Arrival, want.Arrival, len(got.Unlearned),
			len(want.Unlearned))
	}
	alike(r, "live jobs", got.Jobs, want.Jobs)
	alike(r, "attempts", got.Attempts, want.Attempts)
	alike(r, "machines", got.Nodes, want.Nodes)
	alike(r, "what was learned", []*messages.PolicyRecord{got.Policy}, []*messages.PolicyRecord{want.Policy})
	for at := (store.Position{}); ; {
		over, err := r.tried.Finished(at, 50)
		same, wrong := r.kept.Finished(at, 50)
		if err != nil || wrong != nil {
			r.Fatalf("finished: %v and %v", err, wrong)
		}
		alike(r, "jobs that are over", over, same)
		if len(over) == 0 {
			return
		}
		for _, j := range over {
			_, attempts, err := r.tried.Job(topology.JobID(j.Id))
			_, others, wrong := r.kept.Job(topology.JobID(j.Id))
			if err != nil || wrong != nil {
				r.Fatalf("job %s: %v and %v", j.Id, err, wrong)
			}
			alike(r, "its attempts", attempts, others)
		}
		at = store.PositionOf(over[len(over)-1])
	}
}

func alike[M proto.Message](r *replay, what string, got, want []M) {
	r.Helper()
	if !slices.EqualFunc(got, want, func(a, b M) bool { return proto.Equal(a, b) }) {
		r.Fatalf("%s: %v\nand in memory\n%v", what, got, want)
	}
}
