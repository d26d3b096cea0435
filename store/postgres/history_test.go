package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the test of finished jobs in an older version's database.

// TestThePastOfAnOlderSchema checks that a database of schema 2 is migrated, and that its finished jobs can then be
// read by queue, even if there are more than one batch.
func TestThePastOfAnOlderSchema(t *testing.T) {
	s := fresh(t)
	epoch := mustLead(t, s, "tester")
	const jobs = fillBatch + 5
	var changes []actors.Change
	for i := range jobs {
		j := &messages.JobRecord{
			Id: fmt.Sprintf("j%05d", i), Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: uint64(i + 1)},
			Arrival: uint64(i + 1),
			Spec:    &messages.JobSpec{Name: "train", Image: "host", Queue: []string{"", "night", "research"}[i%3]},
			Owner:   &messages.Principal{Name: "alice"}, State: messages.JobState_JOB_STATE_SUCCEEDED,
			FinishedUnixMs: int64(i + 1),
		}
		changes = append(changes, actors.Change{Job: j})
	}
	applied(t, s, epoch, changes...)
	ctx, cancel := s.bounded()
	defer cancel()
	err := pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DROP INDEX synapse.job_finished_owner; DROP INDEX synapse.job_finished_queue;
			DROP INDEX synapse.job_unfilled; DROP TABLE synapse.script; DROP TABLE synapse.policy; DROP TABLE synapse.unlearned;
			DROP TABLE synapse.queues; DROP TABLE synapse.pass; DROP TABLE synapse.head;
			ALTER TABLE synapse.job DROP COLUMN script; ALTER TABLE synapse.version DROP COLUMN schema;
			ALTER TABLE synapse.job DROP COLUMN queue; ALTER TABLE synapse.leader DROP COLUMN holder;
			ALTER TABLE synapse.leader DROP COLUMN uid_turn; UPDATE synapse.version SET version = 2`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, s.options)
	// The leader of the previous version continues for a while, without the new column.
	err = pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE synapse.job SET queue = NULL WHERE id < 'j00300'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	found := 0
	for past := (store.Past{Queue: "research", Look: 200}); ; {
		page, err := s.History(past)
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.Jobs)
		if past.Before = page.Next; page.Next == (store.Position{}) {
			break
		}
	}
	if found != jobs/3 {
		t.Fatalf("%d jobs of the queue, want %d", found, jobs/3)
	}
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
}
