package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the test of reads whose connection breaks: they start again, and return a correct answer.

// cutter breaks the connection once, after the given number of queries.
type cutter struct{ after int }

func (c *cutter) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if c.after--; c.after == 0 {
		_ = conn.PgConn().Conn().Close()
	}
	return ctx
}

func (*cutter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// somethingOfEach writes a running job and an ended one, each with an attempt, a token, a script and an audit head.
func somethingOfEach(t *testing.T, s *Store, epoch uint64) {
	t.Helper()
	for i, id := range []string{"runs", "ended"} {
		by := func(n int) *messages.Token { return &messages.Token{Epoch: epoch, Counter: uint64(10*i + n)} }
		job := func(n int, state messages.JobState) *messages.JobRecord {
			return &messages.JobRecord{
				Id: id, Revision: uint64(n), WrittenBy: by(n), Arrival: uint64(i + 1), RequestId: id, State: state,
				Owner: &messages.Principal{Name: "alice"}, Spec: &messages.JobSpec{
					Name: "train", Image: "host", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
				},
			}
		}
		a := &messages.AttemptRecord{Job: id, Token: by(1), Run: 1, CommittedUnixMs: 7, Places: []*messages.Place{{
			Node: "n0", MachineId: "m0", Address: "n0:1", Grant: &messages.Grant{Amount: &messages.Resources{MilliCpu: 1000}},
		}}}
		applied(t, s, epoch, actors.Change{Job: job(1, messages.JobState_JOB_STATE_QUEUED)}, actors.Change{
			Job: job(2, messages.JobState_JOB_STATE_ACTIVE), Attempts: []*messages.AttemptRecord{a},
		})
		if i == 1 {
			over, end := job(3, messages.JobState_JOB_STATE_FAILED), a.Revise()
			over.FinishedUnixMs = 9
			end.End = &messages.End{Cause: messages.Cause_CAUSE_MACHINE_LOST, Rank: -1, AtUnixMs: 9, RanMs: 2}
			applied(t, s, epoch, actors.Change{Job: over, Attempts: []*messages.AttemptRecord{end}})
		}
	}
	err := errors.Join(s.KeepScript(epoch, []byte("#!")), s.KeepHead(store.AuditHead{Scheduler: "s", N: 1, Hash: "h"}),
		s.KeepPass(epoch, &messages.PassRecord{
			Id: "p", Hash: make([]byte, messages.PassHashBytes), Role: "viewer", Name: "ann", By: "ada", MadeUnixMs: 1,
			UntilUnixMs: 2,
		}))
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadsBeginAgain breaks each read at each of its queries, including those that begin and end its transaction.
func TestReadsBeginAgain(t *testing.T) {
	s := fresh(t)
	epoch := mustLead(t, s, "tester")
	somethingOfEach(t, s, epoch)
	cut := &cutter{}
	config := s.reads.Config()
	config.ConnConfig.Tracer = cut
	s.reads.Close()
	var err error
	if s.reads, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() (any, error){
		"job": func() (any, error) {
			job, attempts, err := s.Job("ended")
			return []any{job, attempts}, err
		},
		"request": func() (any, error) {
			job, attempts, err := s.Requested("alice", "runs")
			return []any{job, attempts}, err
		},
		"load":     func() (any, error) { l, err := s.Load(epoch); return *l, err },
		"finished": func() (any, error) { return s.Finished(store.Position{}, 9) },
		"history":  func() (any, error) { return s.History(store.Past{Look: 9}) },
		"pruned":   func() (any, error) { return s.Pruned("ended") },
		"script":   func() (any, error) { return s.Script(messages.ScriptDigest([]byte("#!"))) },
		"pass":     func() (any, error) { return s.Pass("p") },
		"passes":   func() (any, error) { return s.Passes() },
		"heads":    func() (any, error) { return s.Heads() },
	} {
		whole, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		broke := 0
		for at := 1; ; at++ {
			cut.after = at
			got, err := read()
			if cut.after > 0 { // there are no more queries
				break
			}
			if broke++; err != nil || fmt.Sprint(got) != fmt.Sprint(whole) {
				t.Errorf("%s, broken at query %d: %v (%v), want %v", name, at, got, err, whole)
			}
		}
		if broke < 2 {
			t.Errorf("%s was broken %d times", name, broke)
		}
	}
}
