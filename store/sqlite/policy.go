package sqlite

import (
	"database/sql"
	"errors"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the policy record in its table, and the notes of the attempts that it does
// not know. Package store says what they are for.

const (
	policyWriter = "SELECT epoch, counter FROM policy"
	insertPolicy = "INSERT OR ROLLBACK INTO policy (epoch, counter, record, one) VALUES (?, ?, ?, 1)"
	updatePolicy = "UPDATE OR ROLLBACK policy SET epoch = ?, counter = ?, record = ?"
	note         = "INSERT OR ROLLBACK INTO unlearned (epoch, counter) VALUES (?, ?)"
	unnote       = "DELETE FROM unlearned WHERE epoch = ? AND counter = ?"
	unnoteJob    = "DELETE FROM unlearned WHERE (epoch, counter) IN (SELECT epoch, counter FROM attempt WHERE job = ?)"

	policyRecord = "SELECT epoch, counter, record FROM policy"
	// CROSS JOIN keeps the order of the tables: attempts that are known must not be walked.
	unlearnedJobs = `SELECT id, record FROM job WHERE record IS NOT NULL AND id IN
		(SELECT a.job FROM unlearned u CROSS JOIN attempt a ON a.epoch = u.epoch AND a.counter = u.counter)`
	unlearnedAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM unlearned u
		CROSS JOIN attempt a ON a.epoch = u.epoch AND a.counter = u.counter ORDER BY u.epoch, u.counter`
)

// putPolicy writes the policy record, and the notes that come and go with it.
func (w *writer) putPolicy(rows *store.Rows) error {
	for _, t := range rows.Ends {
		if err := w.change(1, note, int64(t.Epoch), int64(t.Counter)); err != nil {
			return err
		}
	}
	if err := w.putSingle(rows.Policy, insertPolicy, updatePolicy); err != nil {
		return err
	}
	for _, t := range rows.Learned {
		if _, err := w.exec(unnote, int64(t.Epoch), int64(t.Counter)); err != nil {
			return err
		}
	}
	return nil
}

func tokenKeys(tokens []topology.Token) []any {
	keys := make([]any, 0, 2*len(tokens))
	for _, t := range tokens {
		keys = append(keys, int64(t.Epoch), int64(t.Counter))
	}
	return keys
}

// policyRows reads what leaders have learned, and what is still to be learned.
func policyRows(tx *sql.Tx, found *store.Living) error {
	policy, job, attempt := store.PolicyRows[sql.RawBytes](found)
	return errors.Join(query(tx, policyRecord, policy), query(tx, unlearnedJobs, job),
		query(tx, unlearnedAttempts, attempt))
}
