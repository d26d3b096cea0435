package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the table of the policy record, and the notes of attempts that it does not include. Package store
// describes their purpose.

const (
	policyWriter = "SELECT epoch, counter FROM synapse.policy"
	insertPolicy = "INSERT INTO synapse.policy (epoch, counter, record) VALUES ($1, $2, $3)"
	updatePolicy = "UPDATE synapse.policy SET epoch = $1, counter = $2, record = $3"
	note         = "INSERT INTO synapse.unlearned (epoch, counter) SELECT * FROM unnest($1::bigint[], $2::bigint[])"
	unnote       = `DELETE FROM synapse.unlearned u USING unnest($1::bigint[], $2::bigint[]) AS t (epoch, counter)
		WHERE u.epoch = t.epoch AND u.counter = t.counter`
	unnoteJobs = `DELETE FROM synapse.unlearned u USING synapse.attempt a
		WHERE a.job = ANY($1::text[]) AND u.epoch = a.epoch AND u.counter = a.counter`

	policyRecord  = "SELECT epoch, counter, record FROM synapse.policy"
	unlearnedJobs = `SELECT id, record FROM synapse.job WHERE record IS NOT NULL AND id IN
		(SELECT a.job FROM synapse.unlearned u JOIN synapse.attempt a ON a.epoch = u.epoch AND a.counter = u.counter)`
	unlearnedAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM synapse.unlearned u
		JOIN synapse.attempt a ON a.epoch = u.epoch AND a.counter = u.counter ORDER BY u.epoch, u.counter`
)

// putPolicy queues the write of the policy record and of the notes.
func putPolicy(batch *pgx.Batch, rows *store.Rows) {
	epochs, counters := tokenColumns(rows.Ends)
	exactly(batch, len(epochs), note, epochs, counters)
	putSingle(batch, rows.Policy, insertPolicy, updatePolicy)
	if len(rows.Learned) > 0 {
		epochs, counters := tokenColumns(rows.Learned)
		batch.Queue(unnote, epochs, counters)
	}
}

func tokenColumns(tokens []topology.Token) (epochs, counters []int64) {
	for _, t := range tokens {
		epochs, counters = append(epochs, int64(t.Epoch)), append(counters, int64(t.Counter))
	}
	return epochs, counters
}

// policyRows reads the policy record, and the attempts that it does not include yet.
func policyRows(ctx context.Context, tx pgx.Tx, found *store.Living) error {
	policy, job, attempt := store.PolicyRows[pgtype.DriverBytes](found)
	return queryEach(ctx, tx, readQuery{policy, policyRecord}, readQuery{job, unlearnedJobs},
		readQuery{attempt, unlearnedAttempts})
}
